package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
)

// What the names of temporary directories begin with. One with changes to apply is
// never swept: after a crash it is all that is left of them.
const (
	tempPrefix = "amberfs-run-"
	keptPrefix = "amberfs-apply-"
)

// A TempDir is the directory of a temporary store: its lock, the store, and a mount
// point. Only its maker, a process that inherited its lock, and after both are gone
// the next run can get one.
type TempDir struct {
	Path string
	lock *os.File
}

// Temp makes a locked directory for a temporary store, and removes those whose processes have
// ended. If kept is set, no other run removes it.
func Temp(kept bool) (*TempDir, error) {
	sweep(os.TempDir())
	prefix := tempPrefix
	if kept {
		prefix = keptPrefix
	}
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, fail.New(fail.KindOf(err), "cannot create a temporary store: %w", err)
	}
	t := &TempDir{Path: dir}
	if err := t.makeLock(); err != nil {
		_ = unix.Rmdir(dir)
		return nil, fail.New(fail.KindOf(err), "cannot create a temporary store: %w", err)
	}
	return t, nil
}

// makeLock makes the lock. It has its name only once it is locked, so that no sweep
// can lock it first.
func (t *TempDir) makeLock() error {
	mark, err := markOf(t.Path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(t.file("lock.new"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(mark); err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(t.file("lock.new"), t.file("lock"))
	}
	if err != nil {
		return errors.Join(err, unix.Unlink(t.file("lock.new")), f.Close())
	}
	t.lock = f
	return nil
}

// markOf is the content of the lock of a directory. A directory that is not one of
// these, or a copy of one, has no lock with that content.
func markOf(dir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() {
		return "", unix.ENOTDIR
	}
	return fmt.Sprintf("temporary directory of amberfs, inode %d:%d\n", st.Dev, st.Ino), nil
}

// inherit returns the directory of a lock that this process got from its parent.
func inherit(dir string, lock *os.File) (*TempDir, error) {
	t := &TempDir{Path: dir, lock: lock}
	want, err := markOf(dir)
	if err != nil {
		return nil, err
	}
	got := make([]byte, len(want)+1)
	if n, err := lock.ReadAt(got, 0); string(got[:n]) != want {
		return nil, errors.Join(fmt.Errorf("%s is not a temporary directory of amberfs", dir), err)
	}
	return t, nil
}

func (t *TempDir) file(name string) string { return filepath.Join(t.Path, name) }

// Close gives the lock up and leaves the directory.
func (t *TempDir) Close() { t.lock.Close() }

// Remove removes the directory and gives the lock up. Whatever is not part of a
// temporary store stays, and the directory with it.
func (t *TempDir) Remove() {
	os.RemoveAll(t.file("store"))
	_ = unix.Rmdir(t.file("workspace"))
	_ = unix.Unlink(t.file("lock"))
	_ = unix.Rmdir(t.Path)
	t.lock.Close()
}

func sweep(in string) {
	dirs, err := filepath.Glob(filepath.Join(in, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // it is being made, or is no directory of amberfs
		}
		t, err := inherit(dir, f)
		if err == nil && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			t.Remove()
			continue
		}
		f.Close()
	}
}
