package hostdir

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// TestUnchanged: another file with the same size, owner, permissions and times is read again.
func TestUnchanged(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	must.OK(t, err)
	defer f.Close()
	var st unix.Stat_t
	must.OK(t, unix.Fstat(int(f.Fd()), &st))
	born := birthTime(int(f.Fd()))
	if born == 0 {
		t.Skip("this file system has no times of birth")
	}
	n := &tree.Inode{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Mtime: timeOf(st.Mtim), Ctime: changeTime(&st), Btime: born}
	if !unchanged(n, int(f.Fd()), &st) {
		t.Error("the same file is read again")
	}
	if n.Btime--; unchanged(n, int(f.Fd()), &st) {
		t.Error("another file is not read")
	}
}
