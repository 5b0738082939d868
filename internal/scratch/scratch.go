// Package scratch creates temporary directories that are removed even if their process is killed. A
// process removes its own directories. At each New it also removes the directories of processes that
// have ended: the directories without a lock. Process ids cannot be used for this, because processes of
// several PID namespaces can share a directory for temporary files.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The purposes of directories. The name of a directory begins with its purpose.
const (
	Merge  = "amberfs-merge-"
	Export = "amberfs-export-"
	Import = "amberfs-import-"
)

// A Dir is a temporary directory. It is locked while its process lives.
type Dir struct {
	Path string
	lock *os.File
}

// New creates a directory for a purpose, and removes directories whose processes have ended.
func New(purpose string) (*Dir, error) {
	Sweep()

	for {
		path, err := os.MkdirTemp("", purpose)
		if err != nil {
			return nil, err
		}

		d, err := lockDir(path)
		if err == nil {
			return d, nil
		}
		if !errors.Is(err, errInUse) && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, os.Remove(path))
		}
		// Another process has removed the directory before it was locked: create another one.
	}
}

// Remove removes the directory with its contents.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.Path)
	d.lock.Close()
	return err
}

// Sweep removes the directories of this user whose processes have ended.
func Sweep() {
	for _, purpose := range []string{Merge, Export, Import} {
		found, _ := filepath.Glob(filepath.Join(os.TempDir(), purpose+"*"))
		for _, path := range found {
			d, err := lockDir(path)
			if err != nil {
				continue
			}
			if isOwned(d.lock) {
				_ = d.Remove() // if it fails, the next Sweep tries again
			}

			d.lock.Close()
		}
	}
}

// isOwned reports whether this process's user owns a file.
func isOwned(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && int(st.Uid) == os.Geteuid()
}

// errInUse means that another process has locked the directory, or has removed or replaced it.
var errInUse = errors.New("in use")

// lockDir opens and locks the directory at path. It fails with errInUse if the directory is locked, or if
// path names another directory when the lock is taken.
func lockDir(path string) (*Dir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}

	d := &Dir{path, os.NewFile(uintptr(fd), path)}
	if err := lockOpened(fd, path); err != nil {
		d.lock.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}

	return d, nil
}

// lockOpened does the work of lockDir for a directory that is open.
func lockOpened(fd int, path string) error {
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return errInUse
	}
	if err != nil {
		return err
	}

	var opened, now unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &opened), unix.Lstat(path, &now)); err != nil {
		return err
	}
	if opened.Ino != now.Ino || opened.Dev != now.Dev {
		return errInUse
	}

	return nil
}
