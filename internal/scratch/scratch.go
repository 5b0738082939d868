// Package scratch makes temporary directories that go when their process does: at its end, or
// when another process looks for those whose processes were killed. A directory belongs to a
// living process if it is locked, which the kernel knows of all PID namespaces.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// What directories are for. Their names begin with it.
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

// New makes a directory, and removes those whose processes have ended.
func New(purpose string) (*Dir, error) {
	Sweep()
	for {
		path, err := os.MkdirTemp("", purpose)
		if err != nil {
			return nil, err
		}
		d, err := lock(path)
		switch {
		case err == nil:
			return d, nil
		case !errors.Is(err, errTaken) && !errors.Is(err, fs.ErrNotExist):
			return nil, errors.Join(err, os.Remove(path))
		} // else it was swept before it was locked
	}
}

// Remove removes the directory and all in it.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.Path)
	d.lock.Close()
	return err
}

// Sweep removes the directories of this user whose processes have ended.
func Sweep() {
	for _, purpose := range []string{Merge, Export, Import} {
		found, _ := filepath.Glob(filepath.Join(os.TempDir(), purpose+"*")) // the pattern is good
		for _, path := range found {
			d, err := lock(path)
			if err != nil {
				continue
			}
			if own(d.lock) {
				_ = d.Remove() // else the next one tries again
			}
			d.lock.Close()
		}
	}
}

func own(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && int(st.Uid) == os.Geteuid()
}

// errTaken: another process uses the directory, or has put another one in its place.
var errTaken = errors.New("in use")

// lock locks a directory that is still at path.
func lock(path string) (*Dir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	d := &Dir{path, os.NewFile(uintptr(fd), path)}
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		err = errTaken
	}
	var opened, now unix.Stat_t
	if err == nil {
		err = errors.Join(unix.Fstat(fd, &opened), unix.Lstat(path, &now))
	}
	if err == nil && (opened.Ino != now.Ino || opened.Dev != now.Dev) {
		err = errTaken
	}
	if err != nil {
		d.lock.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return d, nil
}
