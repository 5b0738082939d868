package vfs

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// An osFile is an open file of a Root.
type osFile struct {
	*os.File
	root *Root
}

func (f *osFile) Sync() error {
	if f.root.SkipSyncs.Load() {
		return nil
	}
	return f.callWithFD("fdatasync", unix.Fdatasync)
}

func (f *osFile) Allocate(off, n int64) error {
	return f.callWithFD("fallocate", func(fd int) error { return unix.Fallocate(fd, 0, off, n) })
}

func (f *osFile) Punch(off, n int64) error {
	if n <= 0 {
		return nil
	}
	return f.callWithFD("punch", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}

func (f *osFile) Size() (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// callWithFD calls fn with the descriptor, which is not closed during the call, and repeats it after EINTR.
func (f *osFile) callWithFD(op string, fn func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}

	var serr error
	err = c.Control(func(fd uintptr) {
		for {
			serr = fn(int(fd))
			if serr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if serr == unix.EOPNOTSUPP || serr == unix.ENOSYS {
		return fmt.Errorf("%s %s: %w", op, f.Name(), ErrNotSupported)
	}
	if serr != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: serr}
	}

	return nil
}
