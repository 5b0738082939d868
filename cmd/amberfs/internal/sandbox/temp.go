package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
)

// tempPrefix is the prefix of the names of temporary directories.
const tempPrefix = "amberfs-run-"

// A TempDir is the directory of a temporary store. It contains a lock, the store, the stores of other directories of
// the run (store-1 and so on), and a mount point. The process that made it removes it. If that process was killed,
// the next run removes it when the lock is free.
type TempDir struct {
	Path     string
	lockName string // the name of the lock, a file in Path
	lockFile *os.File
}

// MakeTempDir makes a locked directory for a temporary store. It also removes the directories whose processes have
// ended.
func MakeTempDir() (*TempDir, error) {
	sweepTempDirs(os.TempDir())
	dir, err := os.MkdirTemp("", tempPrefix)
	t := &TempDir{Path: dir}
	if err == nil {
		if err = t.makeLock(); err != nil {
			_ = unix.Rmdir(dir)
		}
	}
	if err != nil {
		return nil, errs.Fail(errs.ScriptKind(err), "cannot create a temporary store: %w", err)
	}

	return t, nil
}

// makeLock creates the lock. It locks the file before the file gets its name, so that sweepTempDirs cannot lock it first.
func (t *TempDir) makeLock() (err error) {
	if t.lockName, err = lockNameOf(t.Path); err != nil {
		return err
	}
	if t.lockFile, err = os.OpenFile(t.pathOf("new"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	if err = unix.Flock(int(t.lockFile.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = os.Rename(t.pathOf("new"), t.pathOf(t.lockName))
	}
	if err != nil {
		return errors.Join(err, unix.Unlink(t.pathOf("new")), t.lockFile.Close())
	}

	return nil
}

// lockNameOf returns the name of the lock of a directory. The name has the inode number of the directory, so that a
// copy of the directory has no lock, and is never removed.
func lockNameOf(dir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() {
		return "", unix.ENOTDIR
	}

	return fmt.Sprintf("lock-%d-%d", st.Dev, st.Ino), nil
}

func (t *TempDir) pathOf(name string) string { return filepath.Join(t.Path, name) }

// Remove removes the directory and releases the lock. If the directory contains other files, Remove keeps these files
// and the directory.
func (t *TempDir) Remove() {
	otherStores, _ := filepath.Glob(filepath.Join(t.Path, "store-[0-9]*")) // the pattern is well-formed
	var err error
	for _, store := range append(otherStores, t.pathOf("store")) {
		err = errors.Join(err, os.RemoveAll(store))
	}
	if err == nil { // after an error a daemon is still writing to a store, and the next run tries again
		_ = unix.Rmdir(t.pathOf("workspace"))
		_ = unix.Unlink(t.pathOf(t.lockName))
		_ = unix.Rmdir(t.Path)
	}
	t.lockFile.Close()
}

// sweepTempDirs removes the temporary directories in parent whose locks are free.
func sweepTempDirs(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, tempPrefix+"*")) // the pattern is well-formed
	for _, dir := range dirs {
		name, err := lockNameOf(dir)
		if err != nil {
			continue
		}

		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // the directory is just being made, or is not a TempDir
		}

		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			(&TempDir{dir, name, f}).Remove()
		} else {
			f.Close()
		}
	}
}
