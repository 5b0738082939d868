package fulldisk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

// TestImportThatDoesNotFit brings nothing, and leaves the room that there was.
func TestImportThatDoesNotFit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	must(t, os.Mkdir(dir, 0o755))
	const size = 128 << 20
	tmpfs(t, dir, size)
	m := harness.At(t, filepath.Join(dir, "store"))
	m.Start()
	source := t.TempDir()
	var data []byte
	for i := range size >> 20 {
		data = noise(int64(i), 1<<20)
		must(t, os.WriteFile(filepath.Join(source, string(rune('a'+i%26))+string(rune('a'+i/26))), data, 0o644))
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
	must(t, os.WriteFile(m.Path("f"), data, 0o644))
	for range 10 {
		must(t, os.WriteFile(m.Path("g"), data, 0o644))
	}
}
