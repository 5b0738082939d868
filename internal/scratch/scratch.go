// Package scratch makes temporary directories that go when their process does: at its end, or
// when another process looks for those whose processes were killed.
package scratch

import (
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
		if d != nil || err != nil && !os.IsNotExist(err) {
			return d, err
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
			if d, _ := lock(path); d != nil {
				_ = d.Remove() // else the next one tries again
			}
		}
	}
}

// lock locks a directory of this user that is still at path, nil if it cannot be.
func lock(path string) (*Dir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	d := &Dir{path, os.NewFile(uintptr(fd), path)}
	var opened, now unix.Stat_t
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil || unix.Fstat(fd, &opened) != nil || int(opened.Uid) != os.Geteuid() ||
		unix.Lstat(path, &now) != nil || opened.Ino != now.Ino || opened.Dev != now.Dev {
		d.lock.Close()
		return nil, nil
	}
	return d, nil
}
