package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

func (osFS) Rename(from, to string) error                 { return os.Rename(from, to) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }

func (osFS) ReadDir(name string) ([]Info, error) {
	ents, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(ents))
	for _, e := range ents {
		fi, err := e.Info()
		if os.IsNotExist(err) {
			continue // removed since the names were read
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, infoOf(fi))
	}
	return infos, nil
}

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func (osFS) Stat(name string) (Info, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return infoOf(fi), nil
}

func (osFS) Free(dir string) (int64, error) {
	st, err := statfs(dir)
	return int64(st.Bavail) * st.Bsize, err
}

func (osFS) Total(dir string) (int64, error) {
	st, err := statfs(dir)
	return int64(st.Blocks) * st.Bsize, err
}

func statfs(dir string) (st unix.Statfs_t, err error) {
	for {
		err := unix.Statfs(dir, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return unix.Statfs_t{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
		}
		return st, nil
	}
}

func infoOf(fi fs.FileInfo) Info {
	i := Info{Name: fi.Name(), Size: fi.Size(), Allocated: fi.Size(), Dir: fi.IsDir()}
	i.Special = !i.Dir && !fi.Mode().IsRegular()
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		i.Allocated = st.Blocks * 512
	}
	return i
}

type osFile struct{ *os.File }

func (f *osFile) Sync() error {
	return f.control("fdatasync", unix.Fdatasync)
}

func (f *osFile) Allocate(off, n int64) error {
	return f.control("fallocate", func(fd int) error { return unix.Fallocate(fd, 0, off, n) })
}

func (f *osFile) Punch(off, n int64) error {
	if n <= 0 {
		return nil
	}
	return f.control("punch", func(fd int) error {
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

// control runs fn on the descriptor, which stays open meanwhile.
func (f *osFile) control(op string, fn func(fd int) error) error {
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
