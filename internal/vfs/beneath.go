package vfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Beneath is the real disk below one directory that another party may have made. It
// opens nothing outside of it and follows no symbolic link. It opens regular files only,
// so a FIFO does not block and a device is not read. It does not write to a file that
// has a second name, which could be any user's file. The directory stays the same one
// when it is moved. Names and errors have the path that it had when it was opened.
type Beneath struct {
	root *os.File // nil: that of OS
	dir  string   // its path when it was opened
}

// OS is the whole disk. Links are followed.
var OS FS = &Beneath{}

// Causes in a *fs.PathError.
var (
	// ErrNotRegular: the name is a link, a FIFO or a device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrLinked: the file to be written has more than one name.
	ErrLinked = errors.New("it has other hard links: replace it by a copy of its own")
)

func OpenBeneath(dir string) (*Beneath, error) {
	dir = filepath.Clean(dir)
	root, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	return &Beneath{root, dir}, nil
}

// Close closes the directory. Files that are open stay so.
func (b *Beneath) Close() error { return b.root.Close() }

// Path returns a path that leads to name while b is open, wherever the directory
// is now, for a library that takes paths only. It says nothing about links in the
// way. Without a mounted /proc, it is the path as it was.
func (b *Beneath) Path(name string) string {
	rest, ok := strings.CutPrefix(name, b.dir)
	if !ok || rest != "" && rest[0] != '/' {
		return name
	}
	real := fmt.Sprintf("/proc/self/fd/%d", b.root.Fd())
	want, err := b.root.Stat()
	if err != nil {
		return name
	}
	if got, err := os.Stat(real); err != nil || !os.SameFile(got, want) {
		return name
	}
	return real + rest
}

// open opens what lies beneath the directory, one name after the other, so that no link is
// followed. openat2(2) would do it at once, but systemd refuses that to a unit with
// RestrictSUIDSGID=, and emulators do not have it.
func (b *Beneath) open(op, name string, flag int, perm fs.FileMode) (fd int, err error) {
	dir, names := unix.AT_FDCWD, []string{name}
	if b.root != nil {
		rel, err := filepath.Rel(b.dir, name)
		if err != nil || !filepath.IsLocal(rel) {
			return -1, &fs.PathError{Op: op, Path: name, Err: unix.EXDEV}
		}
		dir, names, flag = int(b.root.Fd()), strings.Split(rel, "/"), flag|unix.O_NOFOLLOW
	}
	for i, n := range names {
		flags := flag
		if i < len(names)-1 {
			flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW
		}
		fd, err = openat(dir, n, flags, perm)
		if i > 0 {
			unix.Close(dir)
		}
		if err != nil {
			return -1, &fs.PathError{Op: op, Path: name, Err: err}
		}
		dir = fd
	}
	return fd, nil
}

func openat(dir int, name string, flag int, perm fs.FileMode) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flag|unix.O_CLOEXEC, uint32(perm.Perm()))
		switch err {
		case unix.EINTR:
			continue
		case unix.ENOTDIR:
			var st unix.Stat_t
			if flag&unix.O_NOFOLLOW != 0 && unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
				err = ErrNotRegular
			}
		case unix.ELOOP:
			err = ErrNotRegular
		}
		return fd, err
	}
}

// at calls fn with the directory that contains name, and the name in there.
func (b *Beneath) at(op, name string, fn func(dir int, base string) error) error {
	if filepath.Clean(name) == b.dir {
		return &fs.PathError{Op: op, Path: name, Err: unix.EBUSY}
	}
	dir, err := b.open(op, filepath.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var inner *fs.PathError
	if err = fn(dir, filepath.Base(name)); err == nil || errors.As(err, &inner) {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// File opens a regular file as an *os.File, to lock it or to append to it.
func (b *Beneath) File(name string, flag int, perm fs.FileMode) (*os.File, error) {
	// It is truncated once it is known that no other process's file is.
	fd, err := b.open("open", name, flag&^os.O_TRUNC|unix.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	if err := b.check(fd, flag); err != nil {
		_ = unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// check refuses a file that is not to be opened, and makes its descriptor block again.
func (b *Beneath) check(fd, flag int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrNotRegular
	}
	if b.root != nil && st.Nlink > 1 && flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		return ErrLinked
	}
	if flag&os.O_TRUNC != 0 && st.Size > 0 {
		if err := unix.Ftruncate(fd, 0); err != nil {
			return err
		}
	}
	return unix.SetNonblock(fd, false)
}

// Own reports whether an entry is a regular file with one name.
func Own(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return fi.Mode().IsRegular() && ok && st.Nlink == 1
}

func (b *Beneath) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := b.File(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

func (b *Beneath) Rename(from, to string) error {
	return b.at("rename", from, func(fromDir int, fromBase string) error {
		return b.at("rename", to, func(toDir int, toBase string) error {
			return unix.Renameat(fromDir, fromBase, toDir, toBase)
		})
	})
}

// RenameNew renames a file to a name that is free; else the error is fs.ErrExist.
func (b *Beneath) RenameNew(from, to string) error {
	return b.at("rename", from, func(fromDir int, fromBase string) error {
		return b.at("rename", to, func(toDir int, toBase string) error {
			err := unix.Renameat2(fromDir, fromBase, toDir, toBase, unix.RENAME_NOREPLACE)
			if err != unix.EINVAL {
				return err
			}
			// NFS and some others have links instead.
			if err = unix.Linkat(fromDir, fromBase, toDir, toBase, 0); err == nil {
				err = unix.Unlinkat(fromDir, fromBase, 0)
			}
			return err
		})
	})
}

// Put writes a file beside name, and renames it to name with rename. Directories are made.
func (b *Beneath) Put(name string, data []byte, perm fs.FileMode, synced bool, rename func(from, to string) error) error {
	dir := filepath.Dir(name)
	if err := b.MkdirAll(dir, perm|perm>>2&0o111); err != nil { // a user that can read can enter
		return err
	}
	tmp := filepath.Join(dir, ".tmp-"+rand.Text())
	f, err := b.File(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil && synced {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, b.Remove(tmp))
	}
	return nil
}

func (b *Beneath) Remove(name string) error {
	return b.at("remove", name, func(dir int, base string) error {
		err := unix.Unlinkat(dir, base, 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
		return err
	})
}

func (b *Beneath) ReadDir(name string) (infos []Info, err error) {
	fd, err := b.open("readdir", name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(fd), name)
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	infos = make([]Info, 0, len(names))
	for _, base := range names {
		i, err := infoAt(fd, base)
		if err == unix.ENOENT {
			continue // removed since the names were read
		}
		if err != nil {
			return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
		}
		infos = append(infos, i)
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name < infos[j].Name })
	return infos, nil
}

func infoAt(dir int, base string) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Info{}, err
	}
	return Info{
		Name: base, Size: st.Size, Allocated: st.Blocks * 512, Modified: time.Unix(st.Mtim.Unix()),
		Dir: st.Mode&unix.S_IFMT == unix.S_IFDIR,
	}, nil
}

func (b *Beneath) MkdirAll(name string, perm fs.FileMode) error {
	if name = filepath.Clean(name); name == b.dir || name == filepath.Dir(name) {
		return nil
	}
	if err := b.MkdirAll(filepath.Dir(name), perm); err != nil {
		return err
	}
	return b.at("mkdir", name, func(dir int, base string) error {
		err := unix.Mkdirat(dir, base, uint32(perm.Perm()))
		if err != unix.EEXIST {
			return err
		}
		if i, serr := infoAt(dir, base); serr != nil || i.Dir {
			return serr
		}
		return unix.ENOTDIR
	})
}

func (b *Beneath) SyncDir(name string) error {
	d, err := b.open("sync", name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(d)
	if err := unix.Fsync(d); err != nil {
		return &fs.PathError{Op: "sync", Path: name, Err: err}
	}
	return nil
}

func (b *Beneath) Stat(name string) (i Info, err error) {
	if filepath.Clean(name) == b.dir {
		i, err = infoAt(int(b.root.Fd()), ".")
	} else {
		err = b.at("stat", name, func(dir int, base string) error {
			i, err = infoAt(dir, base)
			return err
		})
	}
	i.Name = filepath.Base(name)
	return i, err
}

func (b *Beneath) Free(dir string) (int64, error) {
	st, err := b.statfs(dir)
	return int64(st.Bavail) * st.Bsize, err
}

func (b *Beneath) Total(dir string) (int64, error) {
	st, err := b.statfs(dir)
	return int64(st.Blocks) * st.Bsize, err
}

func (b *Beneath) statfs(dir string) (st unix.Statfs_t, err error) {
	d, err := b.open("statfs", dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return st, err
	}
	defer unix.Close(d)
	err = unix.Fstatfs(d, &st)
	return st, err
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
