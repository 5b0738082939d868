package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// Beneath is the real disk for what lies beneath one directory, and for nothing
// else. No symbolic link is followed, neither to a file nor on the way to it, and
// only regular files are opened: a FIFO does not hang the caller, a device is not
// read. The directory stays the same one when it is moved, or removed and another
// made in its place. Names and errors have the path that it had in the beginning.
type Beneath struct {
	root *os.File
	dir  string // its path in the beginning
}

// ErrNotRegular is the error for a name that is no regular file, as the cause in a
// *fs.PathError.
var ErrNotRegular = errors.New("not a regular file")

// OpenBeneath opens a directory for Beneath.
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

// at calls fn with the directory that holds name, and the name in there. That of
// the directory itself is ".". An error tells op and name.
func (b *Beneath) at(op, name string, fn func(dir int, base string) error) error {
	err := b.walk(name, fn)
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (b *Beneath) walk(name string, fn func(dir int, base string) error) error {
	rel, err := filepath.Rel(b.dir, name)
	if err != nil || !filepath.IsLocal(rel) {
		return unix.EXDEV
	}
	parts := strings.Split(rel, "/")
	dir := int(b.root.Fd())
	for _, part := range parts[:len(parts)-1] {
		next, err := openat(dir, part, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(next)
		dir = next
	}
	return fn(dir, parts[len(parts)-1])
}

func openat(dir int, name string, flag int, perm uint32) (fd int, err error) {
	for {
		fd, err = unix.Openat(dir, name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// File opens a regular file for whoever needs an *os.File, to lock it or to append
// to it.
func (b *Beneath) File(name string, flag int, perm fs.FileMode) (f *os.File, err error) {
	err = b.at("open", name, func(dir int, base string) error {
		fd, err := openat(dir, base, flag|unix.O_NONBLOCK, uint32(perm.Perm()))
		if err == unix.ELOOP {
			return ErrNotRegular // a link
		}
		if err != nil {
			return err
		}
		if err := regular(fd); err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		f = os.NewFile(uintptr(fd), name)
		return nil
	})
	return f, err
}

// regular refuses everything but a regular file, and makes one an ordinary
// descriptor again.
func regular(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrNotRegular
	}
	return unix.SetNonblock(fd, false)
}

// OpenFile is that of FS.
func (b *Beneath) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := b.File(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

// Rename is that of FS.
func (b *Beneath) Rename(from, to string) error {
	return b.at("rename", from, func(fromDir int, fromBase string) error {
		return b.at("rename", to, func(toDir int, toBase string) error {
			return unix.Renameat(fromDir, fromBase, toDir, toBase)
		})
	})
}

// Remove is that of FS.
func (b *Beneath) Remove(name string) error {
	return b.at("remove", name, func(dir int, base string) error {
		err := unix.Unlinkat(dir, base, 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// ReadDir is that of FS.
func (b *Beneath) ReadDir(name string) (infos []Info, err error) {
	err = b.directory("readdir", name, func(d *os.File) error {
		names, err := d.Readdirnames(-1)
		if err != nil {
			return err
		}
		infos = make([]Info, 0, len(names))
		for _, base := range names {
			i, err := infoAt(int(d.Fd()), base)
			if err == unix.ENOENT {
				continue // removed since the names were read
			}
			if err != nil {
				return err
			}
			infos = append(infos, i)
		}
		return nil
	})
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name < infos[j].Name })
	return infos, err
}

// directory calls fn with an open directory.
func (b *Beneath) directory(op, name string, fn func(d *os.File) error) error {
	return b.at(op, name, func(dir int, base string) error {
		fd, err := openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		d := os.NewFile(uintptr(fd), name)
		return errors.Join(fn(d), d.Close())
	})
}

func infoAt(dir int, base string) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Info{}, err
	}
	kind := st.Mode & unix.S_IFMT
	return Info{
		Name: base, Size: st.Size, Allocated: st.Blocks * 512,
		Dir: kind == unix.S_IFDIR, Special: kind != unix.S_IFDIR && kind != unix.S_IFREG,
	}, nil
}

// MkdirAll is that of FS.
func (b *Beneath) MkdirAll(name string, perm fs.FileMode) error {
	if filepath.Clean(name) == b.dir {
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

// SyncDir is that of FS.
func (b *Beneath) SyncDir(name string) error {
	return b.directory("sync", name, (*os.File).Sync)
}

// Stat is that of FS.
func (b *Beneath) Stat(name string) (i Info, err error) {
	err = b.at("stat", name, func(dir int, base string) error {
		i, err = infoAt(dir, base)
		return err
	})
	i.Name = filepath.Base(name)
	return i, err
}

// Free is that of FS.
func (b *Beneath) Free(dir string) (int64, error) {
	st, err := b.statfs(dir)
	return int64(st.Bavail) * st.Bsize, err
}

// Total is that of FS.
func (b *Beneath) Total(dir string) (int64, error) {
	st, err := b.statfs(dir)
	return int64(st.Blocks) * st.Bsize, err
}

func (b *Beneath) statfs(dir string) (st unix.Statfs_t, err error) {
	err = b.directory("statfs", dir, func(d *os.File) error { return unix.Fstatfs(int(d.Fd()), &st) })
	return st, err
}
