package main

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/remotetest"
)

func capability(mode csi.VolumeCapability_AccessMode_Mode, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: flags}},
	}
}

var writer = capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (p *plugin) controller() csi.ControllerClient { return csi.NewControllerClient(p.Conn) }

func (p *plugin) nodes() csi.NodeClient { return csi.NewNodeClient(p.Conn) }

// create makes a volume of a name, with parameters of its class.
func (p *plugin) create(name string, from *csi.VolumeContentSource, parameters map[string]string) string {
	p.t.Helper()
	resp := must[*csi.CreateVolumeResponse](p.t)(p.controller().CreateVolume(p.ctx(), &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{writer}, VolumeContentSource: from, Parameters: parameters,
	}))
	return resp.GetVolume().GetVolumeId()
}

func fromSnapshot(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
}

func fromVolume(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
}

func (p *plugin) snapshot(name, volume string) string {
	p.t.Helper()
	resp := must[*csi.CreateSnapshotResponse](p.t)(p.controller().CreateSnapshot(p.ctx(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume}))
	return resp.GetSnapshot().GetSnapshotId()
}

func (p *plugin) target(name string) string {
	return filepath.Join(filepath.Dir(p.Store), "target-"+name)
}

// publish publishes a volume until the test ends, and returns its path.
func (p *plugin) publish(id string, c *csi.VolumeCapability, context map[string]string) string {
	p.t.Helper()
	target := p.target(id)
	must[*csi.NodePublishVolumeResponse](p.t)(p.nodes().NodePublishVolume(p.ctx(), &csi.NodePublishVolumeRequest{
		VolumeId: id, TargetPath: target, VolumeCapability: c, VolumeContext: context,
	}))
	p.t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	return target
}

func (p *plugin) unpublish(id string) {
	p.t.Helper()
	must[*csi.NodeUnpublishVolumeResponse](p.t)(p.nodes().NodeUnpublishVolume(p.ctx(), &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: p.target(id)}))
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t testing.TB, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s has %q, %v; want %q", path, got, err, want)
	}
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("%s: %v; want %v", what, err, want)
	}
}

// TestContents: a snapshot and a clone have the files of the volume, outlive it, and are independent of it.
func TestContents(t *testing.T) {
	p := start(t, "node1")
	a := p.create("a", nil, nil)
	at := p.publish(a, writer, nil)
	write(t, filepath.Join(at, "f"), "one")
	s := p.snapshot("s", a)
	clone := p.create("clone", fromVolume(a), nil)
	write(t, filepath.Join(at, "f"), "two")
	if left, err := os.ReadDir(filepath.Join(at, ".snapshots")); err != nil {
		t.Error(err)
	} else {
		for _, e := range left {
			if idPattern.MatchString(e.Name()) {
				t.Errorf("%s is left in the volume", e.Name())
			}
		}
	}
	_, err := p.controller().DeleteVolume(p.ctx(), &csi.DeleteVolumeRequest{VolumeId: a})
	wantCode(t, "deleting a published volume", err, codes.FailedPrecondition)
	p.unpublish(a)
	if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target is there after the volume was unpublished: %v", err)
	}
	must[*csi.DeleteVolumeResponse](t)(p.controller().DeleteVolume(p.ctx(), &csi.DeleteVolumeRequest{VolumeId: a}))

	b := p.publish(p.create("b", fromSnapshot(s), nil), writer, nil)
	wantFile(t, filepath.Join(b, "f"), "one")
	c := p.publish(clone, writer, nil)
	wantFile(t, filepath.Join(c, "f"), "one")
	write(t, filepath.Join(c, "f"), "three")
	wantFile(t, filepath.Join(b, "f"), "one")
	stats := must[*csi.NodeGetVolumeStatsResponse](t)(p.nodes().NodeGetVolumeStats(p.ctx(), &csi.NodeGetVolumeStatsRequest{VolumeId: clone, VolumePath: c}))
	if used := stats.GetUsage()[0].GetUsed(); used != int64(len("three")) {
		t.Errorf("%d bytes are used", used)
	}
	if log := p.Log(); strings.Contains(log, "no such") {
		t.Errorf("the daemon was asked for what is not there:\n%s", log)
	}
}

// TestReadOnly: a read-only publication cannot be written to, and cannot become another one.
func TestReadOnly(t *testing.T) {
	p := start(t, "node1")
	id := p.create("a", nil, nil)
	at := p.publish(id, capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY, "nosuid"), nil)
	if err := os.WriteFile(filepath.Join(at, "f"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing: %v", err)
	}
	p.publish(id, capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY, "nosuid"), nil)
	_, err := p.nodes().NodePublishVolume(p.ctx(), &csi.NodePublishVolumeRequest{VolumeId: id, TargetPath: at, VolumeCapability: writer})
	wantCode(t, "publishing it again for writing", err, codes.AlreadyExists)
}

// TestKilled: volumes that were published or recorded exist after the driver and the daemon were killed, and repeated
// requests get equal answers.
func TestKilled(t *testing.T) {
	p := start(t, "node1")
	a := p.create("a", nil, nil)
	at := p.publish(a, writer, nil)
	write(t, filepath.Join(at, "f"), "one")
	s := p.snapshot("s", a)
	p.kill()
	p.Crash()
	p.run()
	wantFile(t, filepath.Join(at, "f"), "one")
	if again := p.create("a", nil, nil); again != a {
		t.Errorf("the volume was %s and is %s", a, again)
	}
	if again := p.snapshot("s", a); again != s {
		t.Errorf("the snapshot was %s and is %s", s, again)
	}
	p.publish(a, writer, nil)

	// The mount ended with the daemon: the next publication replaces the mount that the daemon left at the target.
	p.Kill()
	p.Start()
	p.publish(a, writer, nil)
	wantFile(t, filepath.Join(at, "f"), "one")
	p.unpublish(a)
	if left := harness.Mounts(at); len(left) > 0 {
		t.Errorf("mounts are left: %q", left)
	}
}

// TestUnrecorded: a fork that a killed driver left without its record is made again.
func TestUnrecorded(t *testing.T) {
	p := start(t, "node1")
	a := p.create("a", nil, nil)
	write(t, filepath.Join(p.publish(a, writer, nil), "f"), "one")
	p.Amberfs("-C", p.Dir, "fork", idForName(volumePrefix, "b"))
	p.Amberfs("-C", p.Dir, "fork", idForName(snapshotPrefix, "s"))
	b := p.create("b", fromSnapshot(p.snapshot("s", a)), nil)
	wantFile(t, filepath.Join(p.publish(b, writer, nil), "f"), "one")
}

// TestOtherNode: a snapshot that was pushed becomes a volume on another node.
func TestOtherNode(t *testing.T) {
	one, two := start(t, "node1"), start(t, "node2")
	class := map[string]string{remoteParameter: "file://" + filepath.Join(t.TempDir(), "remote")}
	a := one.create("a", nil, class)
	write(t, filepath.Join(one.publish(a, writer, nil), "f"), "one")
	s := one.snapshot("s", a)
	b := two.create("b", fromSnapshot(s), class)
	wantFile(t, filepath.Join(two.publish(b, writer, nil), "f"), "one")
	list := must[*csi.ListSnapshotsResponse](t)(two.controller().ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{}))
	if len(list.GetEntries()) > 0 {
		t.Errorf("the other node lists %v", list.GetEntries())
	}
	onRemote := func() bool {
		return strings.Contains(one.Amberfs("-C", one.Dir, "remote", "snapshots", class[remoteParameter]), s)
	}
	if !onRemote() {
		t.Error("the snapshot is not on the remote")
	}
	must[*csi.DeleteSnapshotResponse](t)(one.controller().DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: s}))
	if onRemote() {
		t.Error("the deleted snapshot is on the remote")
	}
	_, err := two.controller().CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "c", VolumeCapabilities: []*csi.VolumeCapability{writer}, VolumeContentSource: fromSnapshot(idForName(snapshotPrefix, "none")), Parameters: class,
	})
	wantCode(t, "a volume from a snapshot that is nowhere", err, codes.NotFound)
}

// TestEndKeepsNothing: however a volume ends, main keeps no snapshot of it, and no inline volume can begin from it.
func TestEndKeepsNothing(t *testing.T) {
	p := start(t, "node1")
	before := p.Amberfs("-C", p.Dir, "list")
	for how, end := range map[string]func(id string){
		"its ttl":          func(string) {},
		"an administrator": func(id string) { p.Amberfs("-C", p.Dir, "fork", "--delete", id) },
		"rmdir":            func(id string) { _ = os.Remove(p.Path(".forks", id)) },
		"DeleteVolume": func(id string) {
			must[*csi.DeleteVolumeResponse](t)(p.controller().DeleteVolume(p.ctx(), &csi.DeleteVolumeRequest{VolumeId: id}))
		},
	} {
		class := map[string]string{}
		if how == "its ttl" {
			class[ttlParameter] = "1s"
		}
		id := p.create(how, nil, class)
		fork := p.Path(".forks", id)
		write(t, filepath.Join(fork, "secret"), "SECRET")
		if how == "its ttl" { // a pod cannot put it off with a fork of its own
			if err := os.Mkdir(filepath.Join(fork, ".forks", "inner"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		end(id)
		harness.Eventually(t, "the fork ended by "+how, func() bool { _, err := os.Stat(fork); return errors.Is(err, os.ErrNotExist) })
		must[*csi.DeleteVolumeResponse](t)(p.controller().DeleteVolume(p.ctx(), &csi.DeleteVolumeRequest{VolumeId: id}))
		if after := p.Amberfs("-C", p.Dir, "list"); after != before {
			t.Errorf("after a volume was ended by %s, main has\n%s\nand had\n%s", how, after, before)
		}
	}
}

// TestInline: an inline volume ends with its pod, and begins with no files of other volumes.
func TestInline(t *testing.T) {
	p := start(t, "node1")
	write(t, p.Path("f"), "seed")
	p.Amberfs("-C", p.Dir, "snapshot", "seed", "--label", inlineLabel+"="+inlineValue)
	p.Amberfs("-C", p.Dir, "snapshot", "private")
	p.Amberfs("-C", p.Dir, "fork", "ended")
	p.Amberfs("-C", p.Dir, "fork", "--delete", "ended")
	var seed struct{ ID string }
	if err := json.Unmarshal([]byte(p.Amberfs("-C", p.Dir, "show", "--json", "seed")), &seed); err != nil {
		t.Fatal(err)
	}
	a := p.create("a", nil, nil)
	s := p.snapshot("s", a)
	context := func(from string) map[string]string {
		return map[string]string{ephemeralKey: "true", fromParameter: from}
	}
	at := p.publish("csi-pod", writer, context("seed"))
	p.publish("csi-pod", writer, context("seed"))
	wantFile(t, filepath.Join(at, "f"), "seed")
	p.unpublish("csi-pod")
	if forks := p.Amberfs("-C", p.Dir, "forks"); strings.Contains(forks, inlineID("csi-pod")) {
		t.Errorf("the fork is left:\n%s", forks)
	}
	for _, from := range []string{
		a + "/base", a + "/", s + "/" + contentSnapshot, s, s + ".2", "file:///tmp@x", "../x", "label:csi=" + s,
		"", "private", "ended", "latest", "undo", "base", "cp-1", seed.ID, seed.ID[:12], "label:" + inlineLabel + "=" + inlineValue,
	} {
		_, err := p.nodes().NodePublishVolume(p.ctx(), &csi.NodePublishVolumeRequest{
			VolumeId: "csi-other", TargetPath: p.target("other"), VolumeCapability: writer, VolumeContext: context(from),
		})
		wantCode(t, "an inline volume from "+from, err, codes.InvalidArgument)
	}
}

// TestStrangers: invalid requests are refused with the codes of CSI.
func TestStrangers(t *testing.T) {
	p := start(t, "node1")
	request := func(change func(*csi.CreateVolumeRequest)) error {
		req := &csi.CreateVolumeRequest{Name: "a", VolumeCapabilities: []*csi.VolumeCapability{writer}}
		change(req)
		_, err := p.controller().CreateVolume(p.ctx(), req)
		return err
	}
	for what, change := range map[string]func(*csi.CreateVolumeRequest){
		"an unknown parameter": func(r *csi.CreateVolumeRequest) { r.Parameters = map[string]string{"x": "y"} },
		"a policy that is none": func(r *csi.CreateVolumeRequest) {
			r.Parameters = map[string]string{policyParameter: `{"x":1}`}
		},
		"a ttl that is none": func(r *csi.CreateVolumeRequest) { r.Parameters = map[string]string{ttlParameter: "soon"} },
		"a secret":           func(r *csi.CreateVolumeRequest) { r.Secrets = map[string]string{"key": "value"} },
		"many nodes": func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities = []*csi.VolumeCapability{capability(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)}
		},
		"a mount flag": func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities = []*csi.VolumeCapability{capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, "suid")}
		},
		"a negative size": func(r *csi.CreateVolumeRequest) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: -1} },
	} {
		wantCode(t, what, request(change), codes.InvalidArgument)
	}
	wantCode(t, "a snapshot that is none", request(func(r *csi.CreateVolumeRequest) { r.Parameters = map[string]string{fromParameter: "none"} }), codes.NotFound)
	wantCode(t, "another node", request(func(r *csi.CreateVolumeRequest) {
		r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: map[string]string{topologyKey: "node2"}}}}
	}), codes.ResourceExhausted)
	wantCode(t, "any name", request(func(r *csi.CreateVolumeRequest) { r.Name = "../../etc\n@:/" }), codes.OK)

	p.Amberfs("-C", p.Dir, "fork", "other")
	_, err := p.controller().DeleteVolume(p.ctx(), &csi.DeleteVolumeRequest{VolumeId: "other"})
	wantCode(t, "deleting a fork that is no volume", err, codes.OK)
	if forks := p.Amberfs("-C", p.Dir, "forks"); !strings.Contains(forks, "other") {
		t.Error("the fork of somebody else is gone")
	}
	_, err = p.nodes().NodePublishVolume(p.ctx(), &csi.NodePublishVolumeRequest{VolumeId: "other", TargetPath: p.target("other"), VolumeCapability: writer})
	wantCode(t, "publishing a fork that is no volume", err, codes.NotFound)
}

// TestLimit: a volume cannot have more bytes than its capacity until it is expanded, and a pod cannot change the
// capacity. A capacity above the limit of the store's policy for forks is out of range.
func TestLimit(t *testing.T) {
	p := start(t, "node1")
	write(t, p.Path(".snapshots", "policy"), `{"forks":{"unshared_bytes":3000000}}`)
	resp := must[*csi.CreateVolumeResponse](t)(p.controller().CreateVolume(p.ctx(), &csi.CreateVolumeRequest{
		Name: "a", VolumeCapabilities: []*csi.VolumeCapability{writer}, CapacityRange: &csi.CapacityRange{RequiredBytes: 1_000_000},
	}))
	id := resp.GetVolume().GetVolumeId()
	at := p.publish(id, writer, nil)
	large := make([]byte, 1_500_000)
	if err := os.WriteFile(filepath.Join(at, "f"), large, 0o644); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("writing more than the capacity: %v", err)
	}
	if err := os.WriteFile(filepath.Join(at, ".snapshots", "policy"), []byte(`{"unshared_bytes":0}`), 0o644); err == nil {
		t.Error("a pod changes its limit")
	}
	expand := func(n int64) (*csi.ControllerExpandVolumeResponse, error) {
		return p.controller().ControllerExpandVolume(p.ctx(), &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: n}})
	}
	for range 2 {
		if got := must[*csi.ControllerExpandVolumeResponse](t)(expand(2_500_000)); got.GetCapacityBytes() != 2_500_000 {
			t.Errorf("it has %d bytes", got.GetCapacityBytes())
		}
	}
	harness.Eventually(t, "the expanded volume has room", func() bool { return os.WriteFile(filepath.Join(at, "f"), large, 0o644) == nil })
	_, err := expand(5_000_000)
	wantCode(t, "more than the policy allows", err, codes.OutOfRange)
	list := must[*csi.ListVolumesResponse](t)(p.controller().ListVolumes(p.ctx(), &csi.ListVolumesRequest{}))
	if len(list.GetEntries()) != 1 || list.GetEntries()[0].GetVolume().GetCapacityBytes() != 2_500_000 {
		t.Errorf("the volumes are %v", list.GetEntries())
	}
}

// TestRemoteAway: a volume is made while its remote does not answer. A snapshot of the volume fails so that the caller
// tries it again later.
func TestRemoteAway(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	p := start(t, "node1")
	away := httptest.NewServer(nil)
	away.Close()
	a := p.create("a", nil, map[string]string{remoteParameter: remotetest.S3Prefix(away.URL, "x")})
	write(t, filepath.Join(p.publish(a, writer, nil), "f"), "one")
	_, err := p.controller().CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: a})
	wantCode(t, "a snapshot while the remote is away", err, codes.Unavailable)
}
