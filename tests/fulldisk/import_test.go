package fulldisk_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestImportThatDoesNotFit brings nothing, and leaves the room that there was.
func TestImportThatDoesNotFit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	must.OK(t, os.Mkdir(dir, 0o755))
	const size = 128 << 20
	tmpfs(t, dir, size)
	m := harness.NewUnmounted(t, filepath.Join(dir, "store"))
	m.Start()
	source := t.TempDir()
	var data []byte
	for i := range size >> 20 {
		data = noise(int64(i), 1<<20)
		must.OK(t, os.WriteFile(filepath.Join(source, string(rune('a'+i%26))+string(rune('a'+i/26))), data, 0o644))
	}
	cmd := exec.Command(harness.Binary(t), "-C", m.Dir, "import", source, "in")
	out, err := cmd.CombinedOutput()
	const noSpace = 6
	if err == nil || cmd.ProcessState.ExitCode() != noSpace {
		t.Errorf("import: %v\n%s", err, out)
	}
	if _, err := os.Lstat(m.Path("in")); !os.IsNotExist(err) {
		t.Errorf("in: %v", err)
	}
	must.OK(t, os.WriteFile(m.Path("f"), data, 0o644))
	for range 10 {
		must.OK(t, os.WriteFile(m.Path("g"), data, 0o644))
	}
}

// TestImageThatDoesNotFit: an image whose layers do not fit, or whose files do not fit beside
// them, leaves nothing.
func TestImageThatDoesNotFit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	from := harness.New(t)
	dir := filepath.Join(t.TempDir(), "disk")
	must.OK(t, os.Mkdir(dir, 0o755))
	ext4(t, dir, 192<<20)
	m := harness.NewUnmounted(t, filepath.Join(dir, "store"))
	m.Start()
	free := func() int64 {
		var st unix.Statfs_t
		must.OK(t, unix.Statfs(dir, &st))
		return int64(st.Bavail) * st.Bsize >> 20
	}
	before := free()
	n := 0
	for _, mega := range []int{110, 200} {
		for ; n < mega; n++ {
			must.OK(t, os.WriteFile(from.Path(fmt.Sprint(n)), noise(int64(n), 1<<20), 0o644))
		}
		name := fmt.Sprint("v", mega)
		from.Amberfs("snapshot", name)
		image := "oci:" + filepath.Join(t.TempDir(), "image")
		from.Amberfs("export", name, "--image", image)
		cmd := exec.Command(harness.Binary(t), "-C", m.Dir, "import", "--image", image, "in")
		out, err := cmd.CombinedOutput()
		const noSpace = 6
		if err == nil || cmd.ProcessState.ExitCode() != noSpace || !strings.Contains(string(out), "nothing was imported") {
			t.Errorf("%d MB: %v %s", mega, err, out)
		}
		if _, err := os.Lstat(m.Path("in")); !os.IsNotExist(err) {
			t.Errorf("%d MB: in: %v", mega, err)
		}
		if list := m.Amberfs("list", "--all"); !strings.Contains(list, "no snapshots") {
			t.Errorf("%d MB: %s", mega, list)
		}
		if blobs, _ := filepath.Glob(filepath.Join(m.Store, "images", "*")); len(blobs) > 0 {
			t.Errorf("%d MB: %s are left", mega, blobs)
		}
		if after := free(); after < before-16 {
			t.Errorf("%d MB: %d MiB are free of %d", mega, after, before)
		}
	}
	must.OK(t, os.WriteFile(m.Path("f"), noise(1, 1<<20), 0o644))
}
