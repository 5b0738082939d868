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
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Root is an FS for the files in one directory, which may come from another user. It opens no file
// outside of the directory and follows no symbolic links. It opens regular files only, so that a FIFO
// does not block and a device is not read. It does not write to a file with a second hard link, because
// that could be a file of any user elsewhere. The directory may be moved while it is open. Callers still
// pass paths below the path at which it was opened, and errors have these paths.
type Root struct {
	root *os.File // nil in OS
	dir  string   // the path at which the directory was opened

	// SkipSyncs makes Sync and SyncDir do nothing, for files that are made again after a power cut.
	SkipSyncs atomic.Bool
}

// OS is the FS of the whole disk. It follows links.
var OS FS = &Root{}

// Causes in a *fs.PathError.
var (
	// ErrNotRegular means that the file is a link, a FIFO or a device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrLinked means that a file that was to be opened for writing has several hard links.
	ErrLinked = errors.New("it has other hard links: replace it by a copy of its own")
)

// OpenRoot opens a directory. The caller closes it.
func OpenRoot(dir string) (*Root, error) {
	dir = filepath.Clean(dir)
	root, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	return &Root{root: root, dir: dir}, nil
}

// Close closes the directory. Open files stay open.
func (b *Root) Close() error { return b.root.Close() }

// Path converts name to a path that is valid while b is open, even after the directory was moved. It is for libraries
// that take paths. These libraries follow links in the path. If /proc is not mounted, Path returns name.
func (b *Root) Path(name string) string {
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

// open opens a file beneath the directory. It opens the path one name after the other, so that no link
// is followed. A single openat2(2) could do that, but systemd forbids it in a unit with
// RestrictSUIDSGID=, and emulators do not support it.
func (b *Root) open(op, name string, flag int, perm fs.FileMode) (fd int, err error) {
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

// openat is unix.Openat with ErrNotRegular as the error for a link that is not followed.
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

// withParent calls fn with the descriptor of the directory that contains name, and with the base name. It
// adds op and name to the error of fn. name must not be the directory of b itself.
func (b *Root) withParent(op, name string, fn func(dir int, base string) error) error {
	if filepath.Clean(name) == b.dir {
		return &fs.PathError{Op: op, Path: name, Err: unix.EBUSY}
	}
	dir, err := b.open(op, filepath.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)

	err = fn(dir, filepath.Base(name))
	var inner *fs.PathError
	if err == nil || errors.As(err, &inner) {
		return err
	}

	return &fs.PathError{Op: op, Path: name, Err: err}
}

// OpenOSFile opens a regular file as an *os.File, to lock it or to append to it.
func (b *Root) OpenOSFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	// The file is opened without O_TRUNC: prepareOpened truncates it, if it may be written.
	fd, err := b.open("open", name, flag&^os.O_TRUNC|unix.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}

	if err := b.prepareOpened(fd, flag); err != nil {
		_ = unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}

	return os.NewFile(uintptr(fd), name), nil
}

// prepareOpened returns an error for a file that must not be opened with the flags. Otherwise it truncates the file
// if the flags have O_TRUNC, and makes its descriptor blocking.
func (b *Root) prepareOpened(fd, flag int) error {
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

// HasOneName reports whether an entry is a regular file with one name.
func HasOneName(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return fi.Mode().IsRegular() && ok && st.Nlink == 1
}

// OpenFile implements FS.
func (b *Root) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := b.OpenOSFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f, b}, nil
}

// Rename implements FS.
func (b *Root) Rename(from, to string) error {
	return b.withParent("rename", from, func(fromDir int, fromBase string) error {
		return b.withParent("rename", to, func(toDir int, toBase string) error {
			return unix.Renameat(fromDir, fromBase, toDir, toBase)
		})
	})
}

// RenameNew renames a file. It fails with fs.ErrExist if the new name exists.
func (b *Root) RenameNew(from, to string) error {
	return b.withParent("rename", from, func(fromDir int, fromBase string) error {
		return b.withParent("rename", to, func(toDir int, toBase string) error {
			err := unix.Renameat2(fromDir, fromBase, toDir, toBase, unix.RENAME_NOREPLACE)
			if err != unix.EINVAL {
				return err
			}
			// NFS and some others do not support RENAME_NOREPLACE. linkat(2) also fails if the new name exists.
			if err := unix.Linkat(fromDir, fromBase, toDir, toBase, 0); err != nil {
				return err
			}

			return unix.Unlinkat(fromDir, fromBase, 0)
		})
	})
}

// WriteThenRename writes data to a temporary file in the directory of name, and calls rename to give it the name.
// It creates missing directories. If synced is set, the data is on disk before the rename.
func (b *Root) WriteThenRename(name string, data []byte, perm fs.FileMode, synced bool, rename func(from, to string) error) error {
	dir := filepath.Dir(name)
	// Each user class that may read the file gets the right to enter its directories.
	if err := b.MkdirAll(dir, perm|perm>>2&0o111); err != nil {
		return err
	}

	tmp := filepath.Join(dir, ".tmp-"+rand.Text())
	f, err := b.OpenOSFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}

	err = writeAndClose(f, data, synced)
	if err == nil {
		err = rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, b.Remove(tmp))
	}

	return nil
}

func writeAndClose(f *os.File, data []byte, synced bool) error {
	_, err := f.Write(data)
	if err == nil && synced {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Remove implements FS.
func (b *Root) Remove(name string) error {
	return b.withParent("remove", name, func(dir int, base string) error {
		err := unix.Unlinkat(dir, base, 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}

		return err
	})
}

// ReadDir implements FS.
func (b *Root) ReadDir(name string) (infos []Info, err error) {
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
			continue // the file was removed since the names were read
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
		IsDir: st.Mode&unix.S_IFMT == unix.S_IFDIR,
	}, nil
}

// MkdirAll implements FS.
func (b *Root) MkdirAll(name string, perm fs.FileMode) error {
	if name = filepath.Clean(name); name == b.dir || name == filepath.Dir(name) {
		return nil
	}
	if err := b.MkdirAll(filepath.Dir(name), perm); err != nil {
		return err
	}

	return b.withParent("mkdir", name, func(dir int, base string) error {
		err := unix.Mkdirat(dir, base, uint32(perm.Perm()))
		if err != unix.EEXIST {
			return err
		}
		if i, serr := infoAt(dir, base); serr != nil || i.IsDir {
			return serr
		}

		return unix.ENOTDIR
	})
}

// SyncDir implements FS.
func (b *Root) SyncDir(name string) error {
	if b.SkipSyncs.Load() {
		return nil
	}

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

// Stat implements FS.
func (b *Root) Stat(name string) (i Info, err error) {
	if filepath.Clean(name) == b.dir {
		i, err = infoAt(int(b.root.Fd()), ".")
	} else {
		err = b.withParent("stat", name, func(dir int, base string) error {
			i, err = infoAt(dir, base)
			return err
		})
	}

	i.Name = filepath.Base(name)
	return i, err
}

// Free implements FS.
func (b *Root) Free(dir string) (int64, error) {
	st, err := b.statfs(dir)
	return int64(st.Bavail) * st.Bsize, err
}

// Total implements FS.
func (b *Root) Total(dir string) (int64, error) {
	st, err := b.statfs(dir)
	return int64(st.Blocks) * st.Bsize, err
}

func (b *Root) statfs(dir string) (st unix.Statfs_t, err error) {
	d, err := b.open("statfs", dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return st, err
	}
	defer unix.Close(d)

	err = unix.Fstatfs(d, &st)
	return st, err
}
