package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/amberfs/amberfs/tests/harness"
)

// TestTwoDrivers: two drivers of one store lose no volume that one of them acknowledged.
func TestTwoDrivers(t *testing.T) {
	one := start(t, "node1")
	two := startAt(t, one.Mount, "node1", "second")
	const volumes = 30
	var all sync.WaitGroup
	for i := range volumes {
		for _, p := range []*plugin{one, two} {
			all.Go(func() {
				for {
					resp, err := p.controller().CreateVolume(t.Context(), &csi.CreateVolumeRequest{
						Name: fmt.Sprint(i), VolumeCapabilities: []*csi.VolumeCapability{writer},
					})
					if status.Code(err) == codes.Aborted {
						continue // the cluster tries again
					}
					if err != nil {
						t.Errorf("volume %d: %v", i, err)
					} else if _, err := os.Stat(p.Path(".forks", resp.GetVolume().GetVolumeId())); err != nil {
						t.Errorf("volume %d was acknowledged: %v", i, err)
					}
					return
				}
			})
		}
	}
	all.Wait()
	for i := range volumes {
		if _, err := os.Stat(one.Path(".forks", idForName(volumePrefix, fmt.Sprint(i)))); err != nil {
			t.Errorf("volume %d: %v", i, err)
		}
	}
}

// TestPlanted: snapshots that a pod takes under the names of backups do not change the backups of its volume.
func TestPlanted(t *testing.T) {
	p := start(t, "node1")
	write(t, p.Path(".snapshots", "policy"), `{"forks":{"snapshots":3}}`)
	a := p.create("a", nil, nil)
	at := p.publish(a, writer, nil)
	write(t, filepath.Join(at, "f"), "planted")
	for _, name := range []string{idForName(snapshotPrefix, "backup"), idForName(volumePrefix, "clone"), "third"} { // as many as are allowed
		if err := os.Mkdir(filepath.Join(at, ".snapshots", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(at, ".snapshots", "fourth"), 0o755); err == nil {
		t.Fatal("the volume has no limit")
	}
	write(t, filepath.Join(at, "f"), "present")
	for _, id := range []string{p.create("b", fromSnapshot(p.snapshot("backup", a)), nil), p.create("clone", fromVolume(a), nil)} {
		wantFile(t, filepath.Join(p.publish(id, writer, nil), "f"), "present")
	}
}

// TestTarget: unpublishing a volume removes the directory that publishing made, and no other file.
func TestTarget(t *testing.T) {
	p := start(t, "node1")
	target := p.target("a")
	unpublish := func(id string) {
		t.Helper()
		must[*csi.NodeUnpublishVolumeResponse](t)(p.nodes().NodeUnpublishVolume(p.ctx(), &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target}))
	}
	for what, make := range map[string]func() error{
		"a file":             func() error { return os.WriteFile(target, []byte("x"), 0o644) },
		"a link":             func() error { return os.Symlink("/etc", target) },
		"an empty directory": func() error { return os.Mkdir(target, 0o755) },
		"a directory":        func() error { return os.MkdirAll(filepath.Join(target, "sub"), 0o755) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		unpublish(idForName(volumePrefix, "a"))
		if _, err := os.Lstat(target); err != nil {
			t.Errorf("%s that the driver did not make is removed: %v", what, err)
		}
		if err := os.RemoveAll(target); err != nil {
			t.Fatal(err)
		}
	}
	a := p.create("a", nil, nil)
	target = p.publish(a, writer, nil)
	unpublish(a)
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory that the driver made is there: %v", err)
	}
}

// restricted is a script of a pod whose user is not root. The pod has the group of its fsGroup.
const restricted = `
set -e
echo one > f
mkdir .snapshots/s
echo two > f
cat .snapshots/diff@s > /dev/null
mv .snapshots/restore .snapshots/restore@s
cat f .snapshots/log
mv .snapshots/restore .snapshots/restore@base
echo three > f
`

// TestOwner: the user that the class names may restore the volume, also after the kubelet applied an fsGroup. Another
// user may not.
func TestOwner(t *testing.T) {
	p := start(t, "node1")
	for _, owner := range []string{"root", "1000:x", "-1", "1000:-1", "4294967295"} {
		_, err := p.controller().CreateVolume(p.ctx(), &csi.CreateVolumeRequest{
			Name: "a", VolumeCapabilities: []*csi.VolumeCapability{writer}, Parameters: map[string]string{ownerParameter: owner},
		})
		wantCode(t, "the owner "+owner, err, codes.InvalidArgument)
	}
	p.Amberfs("-C", p.Dir, "snapshot", "seed", "--label", inlineLabel+"="+inlineValue)
	inline := map[string]string{ephemeralKey: "true", fromParameter: "seed", ownerParameter: "1000"}
	for what, at := range map[string]string{
		"a volume":         p.publish(p.create("a", nil, map[string]string{ownerParameter: "1000"}), writer, nil),
		"an inline volume": p.publish("csi-pod", writer, inline),
	} {
		if err := os.Lchown(at, -1, 3000); err != nil { // as the kubelet does
			t.Fatal(err)
		}
		if err := os.Chmod(at, 0o775|os.ModeSetgid); err != nil {
			t.Fatal(err)
		}
		as := func(uid uint32) ([]byte, error) {
			cmd := exec.Command("sh", "-c", restricted)
			cmd.Dir = at
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{3000}}}
			return cmd.CombinedOutput()
		}
		if out, err := as(1001); err == nil {
			t.Errorf("another user restores %s:\n%s", what, out)
		}
		_ = os.Remove(filepath.Join(at, ".snapshots", "s"))
		_ = os.Remove(filepath.Join(at, "f"))
		if out, err := as(1000); err != nil || string(out[:min(4, len(out))]) != "one\n" {
			t.Errorf("the owner does not restore %s: %v\n%s", what, err, out)
		}
	}
	harness.Eventually(t, "the kubelet's group stays", func() bool {
		st, err := os.Stat(p.Path(".forks", idForName(volumePrefix, "a")))
		return err == nil && st.Sys().(*syscall.Stat_t).Gid == 3000
	})
}

// TestStatistics: the used bytes that the kubelet gets include the history, as in df and in the limit.
func TestStatistics(t *testing.T) {
	p := start(t, "node1")
	const capacity = 20_000_000
	resp := must[*csi.CreateVolumeResponse](t)(p.controller().CreateVolume(p.ctx(), &csi.CreateVolumeRequest{
		Name: "a", VolumeCapabilities: []*csi.VolumeCapability{writer}, CapacityRange: &csi.CapacityRange{RequiredBytes: capacity},
	}))
	id := resp.GetVolume().GetVolumeId()
	at := p.publish(id, writer, nil)
	random := make([]byte, 4_000_000)
	for i := range 3 {
		for j := range random {
			random[j] = byte(j*j>>7) ^ byte(j*31+i*7)
		}
		write(t, filepath.Join(at, "f"), string(random))
		if err := os.Mkdir(filepath.Join(at, ".snapshots", fmt.Sprint("s", i)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(at, "f")); err != nil {
			t.Fatal(err)
		}
	}
	stats := must[*csi.NodeGetVolumeStatsResponse](t)(p.nodes().NodeGetVolumeStats(p.ctx(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: at}))
	bytes := stats.GetUsage()[0]
	if bytes.GetTotal() != capacity || bytes.GetAvailable()+bytes.GetUsed() != capacity || bytes.GetUsed() < 3_000_000 {
		t.Errorf("three snapshots of 4 MB, and nothing now: %v", bytes)
	}
}
