package posix_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLowerOfOverlay: an overlay whose lower layer is on the mount copies files and
// directories up when they are changed, and leaves the lower layer as it is.
func TestLowerOfOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts an overlay")
	}
	lower := filepath.Join(target(t), "lower")
	must(t, os.MkdirAll(filepath.Join(lower, "dir"), 0o755))
	write(t, filepath.Join(lower, "file"), "lower")
	write(t, filepath.Join(lower, "dir", "file"), "lower")
	must(t, unix.Setxattr(filepath.Join(lower, "file"), "user.a", []byte("b"), 0))

	scratch, merged := t.TempDir(), t.TempDir() // an upper layer cannot be on just any disk
	must(t, unix.Mount("tmpfs", scratch, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(scratch, 0)) })
	upper, work := filepath.Join(scratch, "upper"), filepath.Join(scratch, "work")
	must(t, os.Mkdir(upper, 0o755))
	must(t, os.Mkdir(work, 0o755))
	must(t, unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work)))
	t.Cleanup(func() { must(t, unix.Unmount(merged, 0)) })

	f, err := os.OpenFile(filepath.Join(merged, "file"), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(" and upper")
	must(t, err)
	must(t, f.Close())
	must(t, os.Chmod(filepath.Join(merged, "dir", "file"), 0o600))
	must(t, os.Rename(filepath.Join(merged, "dir", "file"), filepath.Join(merged, "dir", "moved")))
	wantData(t, filepath.Join(merged, "file"), "lower and upper")
	wantData(t, filepath.Join(merged, "dir", "moved"), "lower")
	wantData(t, filepath.Join(lower, "file"), "lower")
	wantData(t, filepath.Join(lower, "dir", "file"), "lower")
}
