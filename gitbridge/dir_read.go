package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"

	"github.com/amberfs/amberfs/snapshot/tree"
	"golang.org/x/sys/unix"
)

// DirOptions say what of a directory is read.
type DirOptions struct {
	ImportOptions
	// Exclude are directories that are passed over wherever they are met, such
	// as the store and the mount point. Those that do not exist are ignored.
	Exclude []string
	// Later, if there is one, is where the contents of files wait: the sink gets
	// them as a *LaterReader.
	Later *Later
}

// ReadDir feeds a directory of the host to sink: files with their holes,
// symbolic links as they are, hard links between files inside, FIFOs, sockets
// and devices, owners, modes, times and extended attributes. No symbolic link
// is followed, also if somebody puts one in the way meanwhile. A file that
// grows is read up to the size that it had; one that shrinks is an error.
func ReadDir(ctx context.Context, dir string, sink Sink, o DirOptions) error {
	g := newCheckedSink(sink, o.ImportOptions)
	d := &dirReader{ctx: ctx, o: o, g: g, links: make(map[fileID]string), exclude: make(map[fileID]bool)}
	for _, e := range o.Exclude {
		var st unix.Stat_t
		if err := unix.Stat(e, &st); err == nil {
			d.exclude[fileID{st.Dev, st.Ino}] = true
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	if err := d.dir(".", f, &st); err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	return nil
}

// fileID is what makes two names the same file.
type fileID struct{ dev, ino uint64 }

type dirReader struct {
	ctx     context.Context
	o       DirOptions
	g       *checkedSink
	links   map[fileID]string
	exclude map[fileID]bool
}

// dir reads an open directory.
func (d *dirReader) dir(at string, f *os.File, st *unix.Stat_t) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	m, err := d.meta(st, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), true)
	if err != nil {
		return fmt.Errorf("%q: %w", at, err)
	}
	if err := d.g.dir(at, m); err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return d.o.skip(at, fmt.Errorf("%q: %w", at, reason(err)))
	}
	slices.Sort(names)
	for _, name := range names {
		if err := d.entry(path.Join(at, name), f, name); err != nil {
			return err
		}
	}
	return nil
}

// entry reads one name of an open directory.
func (d *dirReader) entry(at string, parent *os.File, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(parent.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it went away meanwhile
	}
	if err != nil {
		return d.o.skip(at, fmt.Errorf("%q: %w", at, err))
	}
	id := fileID{st.Dev, st.Ino}
	isDirectory := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if d.exclude[id] && isDirectory {
		return nil
	}
	if st.Nlink > 1 && !isDirectory {
		if old, ok := d.links[id]; ok {
			return d.g.hardlink(at, old)
		}
	}
	before := d.g.entries
	if err := d.read(at, parent, name, &st); err != nil {
		return err
	}
	if st.Nlink > 1 && !isDirectory && d.g.entries > before { // else it was left out
		d.links[id] = at
	}
	return nil
}

func (d *dirReader) read(at string, parent *os.File, name string, st *unix.Stat_t) error {
	proc := fmt.Sprintf("/proc/self/fd/%d/%s", parent.Fd(), name)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFREG:
		if st.Mode&unix.S_IFMT == unix.S_IFREG && d.o.Later.takes(int(parent.Fd()), name, st) {
			m, err := d.meta(st, proc, false)
			if err != nil {
				return d.o.skip(at, fmt.Errorf("%q: %w", at, err))
			}
			return d.g.file(at, m, st.Size, d.o.Later.add(at, st))
		}
		return d.open(at, parent, name, st)
	case unix.S_IFLNK:
		m, err := d.meta(st, proc, false)
		if err != nil {
			return d.o.skip(at, fmt.Errorf("%q: %w", at, err))
		}
		buf := make([]byte, maxPath+1)
		n, err := unix.Readlinkat(int(parent.Fd()), name, buf)
		if err != nil {
			return d.o.skip(at, fmt.Errorf("%q: %w", at, err))
		}
		return d.g.symlink(at, string(buf[:n]), m)
	}
	m, err := d.meta(st, proc, false)
	if err != nil {
		return d.o.skip(at, fmt.Errorf("%q: %w", at, err))
	}
	return d.g.special(at, m, uint32(st.Rdev))
}

// open reads a regular file or a directory, and makes sure that what it opened
// is what it looked at.
func (d *dirReader) open(at string, parent *os.File, name string, st *unix.Stat_t) error {
	flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags |= unix.O_DIRECTORY
	}
	fd, err := unix.Openat(int(parent.Fd()), name, flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return d.o.skip(at, fmt.Errorf("%q: %w", at, err))
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return d.o.skip(at, fmt.Errorf("%q: %w", at, err))
	}
	if now.Dev != st.Dev || now.Ino != st.Ino {
		return d.o.skip(at, fmt.Errorf("%q was replaced while it was read", at))
	}
	if now.Mode&unix.S_IFMT == unix.S_IFDIR {
		return d.dir(at, f, &now)
	}
	m, err := d.meta(&now, "/proc/self/fd/"+strconv.Itoa(fd), true)
	if err != nil {
		return d.o.skip(at, fmt.Errorf("%q: %w", at, err))
	}
	r := &wholeReader{r: &contextReader{d.ctx, f}, left: now.Size}
	if err := d.g.file(at, m, now.Size, r); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%q became shorter while it was read: %w", at, err)
		}
		return err
	}
	return nil
}

// meta reads what any file has. proc is a path to it under /proc, which
// follow says leads over a magic link.
func (d *dirReader) meta(st *unix.Stat_t, proc string, follow bool) (Meta, error) {
	m := d.o.own(Meta{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Atime: st.Atim.Nano(), Mtime: st.Mtim.Nano()})
	list, get := unix.Llistxattr, unix.Lgetxattr
	if follow {
		list, get = unix.Listxattr, unix.Getxattr
	}
	names, err := sized(func(buf []byte) (int, error) { return list(proc, buf) })
	if err != nil {
		if errors.Is(err, unix.ENOTSUP) {
			return m, nil
		}
		return m, fmt.Errorf("listing extended attributes: %w", err)
	}
	for _, name := range splitNames(names) {
		value, err := sized(func(buf []byte) (int, error) { return get(proc, name, buf) })
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return m, fmt.Errorf("reading the extended attribute %s: %w", name, err)
		}
		m.Xattrs = append(m.Xattrs, tree.Xattr{Name: name, Value: value})
	}
	sortXattrs(m.Xattrs)
	return m, nil
}

// sized calls a system call that tells how much room it wants, until it has it.
func sized(call func([]byte) (int, error)) ([]byte, error) {
	var small [512]byte
	n, err := call(small[:])
	if err == nil {
		return slices.Clone(small[:n]), nil
	}
	for errors.Is(err, unix.ERANGE) {
		if n, err = call(nil); err != nil {
			return nil, err
		}
		buf := make([]byte, n)
		if n, err = call(buf); err == nil {
			return buf[:n], nil
		}
	}
	return nil, err
}

func splitNames(list []byte) []string {
	var names []string
	for len(list) > 0 {
		n := slices.Index(list, 0)
		if n < 0 {
			n = len(list)
		}
		names = append(names, string(list[:n]))
		list = list[min(n+1, len(list)):]
	}
	return names
}

// reason drops the path that the os package puts into its errors: it is one
// that the user does not know.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
