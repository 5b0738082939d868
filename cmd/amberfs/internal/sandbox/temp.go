package sandbox

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
)

// What the names of temporary directories begin with. One whose work is to be
// carried back is never swept: after a crash it is all that is left of it.
const (
	tempPrefix = "amberfs-run-"
	keptPrefix = "amberfs-apply-"
)

// Temp makes a directory for a temporary store, with a lock that lives as long
// as somebody has the file open, and takes away those that nobody has any more.
// With kept, it is taken away by its maker or nobody.
func Temp(kept bool) (dir string, lock *os.File, err error) {
	sweep(os.TempDir())
	prefix := tempPrefix
	if kept {
		prefix = keptPrefix
	}
	dir, err = os.MkdirTemp("", prefix)
	if err != nil {
		return "", nil, fail.New(fail.KindOf(err), "cannot make a temporary store: %w", err)
	}
	lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, fail.New(fail.KindOf(err), "cannot make a temporary store: %w", err)
	}
	return dir, lock, nil
}

// sweep takes away temporary directories of ours whose lock is free.
func sweep(in string) {
	dirs, err := filepath.Glob(filepath.Join(in, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue // just being made, or not ours after all
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		f.Close()
	}
}
