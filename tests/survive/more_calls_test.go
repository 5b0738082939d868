package survive_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// result is what a call returned that succeeded, to be compared as its error is.
func result(err error, what ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("returned %v", what)
}

// reading is a system call that changes nothing.
func reading(name, request string, call func(path func(string) string) error) systemCall {
	c := named(name, call)
	c.request = request
	return c
}

// moreCalls are those of ordinary files that read, and those that the kernel carries out in several steps
// or in part by itself.
var moreCalls = []systemCall{
	named("set the times", func(p func(string) string) error {
		at := []unix.Timespec{{Sec: 1e9, Nsec: 1}, {Sec: 1e9, Nsec: 2}}
		var st unix.Stat_t
		err := unix.UtimesNanoAt(unix.AT_FDCWD, p("f"), at, 0)
		err = errors.Join(err, unix.Stat(p("f"), &st))
		return result(err, st.Mtim)
	}),
	named("rename and leave a whiteout", func(p func(string) string) error {
		return unix.Renameat2(unix.AT_FDCWD, p("f"), unix.AT_FDCWD, p("n"), unix.RENAME_WHITEOUT)
	}),
	named("a directory in a new directory", func(p func(string) string) error {
		return errors.Join(unix.Mkdir(p("n"), 0o750), unix.Mkdir(p("n/n"), 0o700))
	}),
	opened("allocate, and keep the size", unix.O_RDWR, func(fd int, _ string) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 1_000_000)
	}),
	opened("copy from another file", unix.O_RDWR, func(fd int, dir string) error {
		from, err := unix.Open(filepath.Join(dir, "d2/f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(from)
		start, to := int64(100), int64(7)
		n, err := unix.CopyFileRange(from, &start, fd, &to, 30_000, 0)
		return result(err, n)
	}),
	opened("write more than a request takes", unix.O_RDWR, func(fd int, _ string) error {
		n, err := unix.Pwrite(fd, []byte(strings.Repeat("0123456789", 300_000)), 3)
		return result(err, n)
	}),
	opened("write through a mapping", unix.O_RDWR, func(fd int, _ string) error {
		b, err := unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		copy(b[4090:], "over a page")
		return errors.Join(unix.Msync(b, unix.MS_SYNC), unix.Munmap(b))
	}),
	{name: "list", request: "READDIR", make: func(dir string, ready func()) error {
		if err := os.Mkdir(filepath.Join(dir, "n"), 0o755); err != nil { // the kernel has the old list
			return err
		}
		ready()
		names, err := os.ReadDir(dir)
		return result(err, names)
	}},
	reading("statfs", "STATFS", func(p func(string) string) error {
		var st unix.Statfs_t
		err := unix.Statfs(p("f"), &st)
		return result(err, st.Blocks > st.Bfree)
	}),
	reading("getxattr", "GETXATTR", func(p func(string) string) error {
		value := make([]byte, 10)
		n, err := unix.Getxattr(p("f"), "user.a", value)
		return result(err, string(value[:max(0, n)]))
	}),
	reading("listxattr", "LISTXATTR", func(p func(string) string) error {
		value := make([]byte, 100)
		n, err := unix.Listxattr(p("f"), value)
		return result(err, strings.Contains(string(value[:max(0, n)]), "user.a\x00"))
	}),
	{name: "read through a mapping", request: "READ", make: func(dir string, ready func()) error {
		fd, err := unix.Open(filepath.Join(dir, "f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		b, err := unix.Mmap(fd, 0, 8192, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		err = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
		ready()
		return errors.Join(result(err, string(b[4090:4110])), unix.Munmap(b))
	}},
	{name: "write with locks of an open file", make: func(dir string, ready func()) error {
		open := func() (int, error) { return unix.Open(filepath.Join(dir, "f"), unix.O_RDWR|unix.O_CLOEXEC, 0) }
		ours, err := open()
		theirs, err2 := open()
		defer unix.Close(ours)
		defer unix.Close(theirs)
		lock := &unix.Flock_t{Type: unix.F_WRLCK, Start: 10, Len: 10}
		if err := errors.Join(err, err2, unix.FcntlFlock(uintptr(ours), unix.F_OFD_SETLK, lock)); err != nil {
			return err
		}
		ready()
		_, err = unix.Pwrite(ours, []byte("locked"), 10)
		refused := unix.FcntlFlock(uintptr(theirs), unix.F_OFD_SETLK, lock)
		lock.Type = unix.F_UNLCK
		err = errors.Join(err, unix.FcntlFlock(uintptr(ours), unix.F_OFD_SETLK, lock))
		lock.Type = unix.F_WRLCK
		return result(errors.Join(err, unix.FcntlFlock(uintptr(theirs), unix.F_OFD_SETLK, lock)), refused)
	}},
	{name: "write with flock", make: func(dir string, ready func()) error {
		open := func() (int, error) { return unix.Open(filepath.Join(dir, "f"), unix.O_RDWR|unix.O_CLOEXEC, 0) }
		ours, err := open()
		theirs, err2 := open()
		defer unix.Close(ours)
		defer unix.Close(theirs)
		if err := errors.Join(err, err2, unix.Flock(ours, unix.LOCK_EX)); err != nil {
			return err
		}
		ready()
		_, err = unix.Pwrite(ours, []byte("locked"), 10)
		refused := unix.Flock(theirs, unix.LOCK_SH|unix.LOCK_NB)
		err = errors.Join(err, unix.Flock(ours, unix.LOCK_UN))
		return result(errors.Join(err, unix.Flock(theirs, unix.LOCK_EX|unix.LOCK_NB)), refused)
	}},
}
