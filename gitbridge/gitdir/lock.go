package gitdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// An indexLock is git's lock file of an index, index.lock. The file has a second name, lockMark. This process has an
// flock on the file. After a kill the file has no flock: the next lockIndex sees that, and removes both names.
type indexLock struct {
	*os.File
	dir     string
	renamed bool
}

const lockMark = "index.lock.amberfs"

// lockIndex locks the index of a git directory. It returns ErrBusy if another process has locked the index.
func lockIndex(dir string) (*indexLock, error) {
	mark, name := filepath.Join(dir, lockMark), filepath.Join(dir, "index.lock")
	errLocked := fmt.Errorf("%w: %s exists", ErrBusy, name)

	if leftover, err := os.OpenFile(mark, os.O_RDWR|unix.O_NOFOLLOW, 0); err == nil {
		defer leftover.Close()

		if unix.Flock(int(leftover.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			return nil, errLocked
		}

		info, err := leftover.Stat()
		if lockInfo, lockErr := os.Lstat(name); err == nil && lockErr == nil && os.SameFile(info, lockInfo) {
			err = os.Remove(name)
		}
		if err = errors.Join(err, os.Remove(mark)); err != nil {
			return nil, err
		}
	}

	f, err := os.OpenFile(mark, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}

	l := &indexLock{File: f, dir: dir}
	err = errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), os.Link(mark, name))
	if err == nil {
		return l, nil
	}

	_ = os.Remove(mark)
	f.Close()
	if !errors.Is(err, fs.ErrExist) {
		// The file system may have no hard links. Then index.lock is made without a second name.
		l.File, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil, errLocked
	}

	return l, err
}

// rename renames index.lock to index.
func (l *indexLock) rename() error {
	err := os.Rename(filepath.Join(l.dir, "index.lock"), filepath.Join(l.dir, "index"))
	l.renamed = err == nil
	return err
}

// release removes lockMark and, if it was not renamed, index.lock.
func (l *indexLock) release() {
	if !l.renamed {
		_ = os.Remove(filepath.Join(l.dir, "index.lock")) // the file is not another program's: this lock has made it
	}
	_ = os.Remove(filepath.Join(l.dir, lockMark)) // after an error, the next lockIndex removes the name
	l.Close()
}
