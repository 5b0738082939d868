package images_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestPodmanAndSkopeo: both take what is exported, with its digest and its tree. The layer has
// what podman commits after the same changes.
func TestPodmanAndSkopeo(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("an ordinary user cannot mount podman's images")
	}
	harness.SkipWithout(t, "podman", "skopeo", "setfattr")
	storage, err := os.MkdirTemp("", "p") // podman takes 50 characters
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(storage) })
	run := func(name string, args ...string) string {
		t.Helper()
		if name == "podman" {
			args = append([]string{"--root", filepath.Join(storage, "root"), "--runroot", filepath.Join(storage, "run"), "--storage-driver", "overlay"}, args...)
		}
		out, err := exec.Command(name, args...).Output()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, err.(*exec.ExitError).Stderr)
		}
		return strings.TrimSpace(string(out))
	}
	t.Cleanup(func() { run("podman", "rm", "--force", "--all") })
	l := newLayout(t)
	l.plain = true
	ref := l.tag("v", l.image(runtime.GOARCH, system(t)...))

	m := harness.New(t)
	m.Amberfs("import", "--image", ref)
	change(t, m.Dir)
	run("rm", m.Path(".wh.no"), m.Path("seen")) // in a layer such a name means that a file was removed
	m.Amberfs("snapshot", "one")
	file := filepath.Join(t.TempDir(), "one.tar")
	digest := last(m.Amberfs("export", "one", "--image", "docker-archive:"+file))
	out, saved := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "saved")
	run("skopeo", "copy", "--preserve-digests", "oci-archive:"+file, "oci:"+out+":one")
	layers, got := blobsOf(t, out)
	if got != digest {
		t.Errorf("skopeo copies %s, not %s", got, digest)
	}

	// container loads an archive, and mounts the root directory of a container of it.
	container := func(archive string) (id, dir string) {
		t.Helper()
		image := run("podman", "load", "-q", "-i", archive)
		id = run("podman", "create", image[strings.LastIndexByte(image, ' ')+1:], "/bin/true")
		return id, run("podman", "mount", id)
	}
	_, dir := container(file)
	same(t, "podman", withoutTime(dump(t, m.Dir)), withoutTime(dump(t, dir)))

	base := filepath.Join(t.TempDir(), "base.tar")
	run("skopeo", "copy", ref, "docker-archive:"+base+":base:v1")
	id, dir := container(base)
	change(t, dir)
	run("rm", filepath.Join(dir, ".wh.no"), filepath.Join(dir, "seen"))
	committed := run("podman", "commit", "-q", id)
	run("podman", "save", "-q", "--format", "oci-dir", "-o", saved, committed)
	theirs, _ := blobsOf(t, saved)
	// overlayfs separates the names of a hard link, leaves the root directory out, and marks a new
	// directory opaque.
	names := func(layout, layer string) (names []string) {
		for _, name := range layerNames(t, filepath.Join(layout, "blobs", strings.ReplaceAll(layer, ":", "/"))) {
			if name != "./" && name != "c=a" && name != "etc/issue/.wh..wh..opq" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	ours, want := names(out, layers[2]), names(saved, theirs[2])
	if !slices.Equal(ours, want) {
		t.Errorf("the layer has\n%s, and podman's\n%s", ours, want)
	}
}
