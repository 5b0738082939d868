package hostdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// A namedFile is an open file. It was opened by its name in a directory.
type namedFile struct {
	pathFD    int // a descriptor (O_PATH), or -1 if dataFD was opened by the name
	dataFD    int // a descriptor for reading, or -1
	st        unix.Stat_t
	birthTime int64 // see statusOf
}

// openName opens a file by its name in a directory, without following a link. listedType is the type of the file in the
// directory's listing. A regular file is opened for reading if this is permitted, which saves a third of the system
// calls for it. All other files are opened by O_PATH, because opening a device or a file system can have effects.
func (d *dirReader) openName(dir int, name string, listedType fs.FileMode) (*namedFile, error) {
	f := &namedFile{pathFD: -1, dataFD: -1}

	if listedType.IsRegular() {
		if fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err == nil {
			f.dataFD = fd
			if f.stat() == nil && f.st.Mode&unix.S_IFMT == unix.S_IFREG {
				return f, nil
			}

			f.close() // another file has got the name since the directory was listed
		}
	}

	err := d.asOwner(dir, &unix.Stat_t{}, unix.S_IXUSR, func() (err error) {
		f.pathFD, err = unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err == nil {
		err = f.stat()
	}
	if err != nil {
		f.close()
	}

	return f, err
}

// stat reads the status of the file.
func (f *namedFile) stat() (err error) {
	f.st, f.birthTime, err = statusOf(max(f.pathFD, f.dataFD), "", unix.AT_EMPTY_PATH)
	return err
}

// statusOf returns the status of a file, and the time at which it was created. The time is 0 if the file system does not
// record it. It distinguishes a file from an earlier one with an equal inode number. The arguments are those of statx(2).
func statusOf(dir int, name string, flags int) (st unix.Stat_t, birthTime int64, err error) {
	var x unix.Statx_t
	if err := unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &x); err != nil {
		return st, 0, err
	}

	timespec := func(t unix.StatxTimestamp) unix.Timespec { return unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)} }
	if x.Mask&unix.STATX_BTIME != 0 {
		birthTime = timeOf(timespec(x.Btime))
	}
	st = unix.Stat_t{
		Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino, Mode: uint32(x.Mode), Uid: x.Uid, Gid: x.Gid,
		Rdev: unix.Mkdev(x.Rdev_major, x.Rdev_minor), Size: int64(x.Size), Blocks: int64(x.Blocks), Atim: timespec(x.Atime), Mtim: timespec(x.Mtime), Ctim: timespec(x.Ctime),
	}
	setCount(&st.Nlink, x.Nlink)

	return st, birthTime, nil
}

// setCount sets a number whose type depends on the processor.
func setCount[T uint32 | uint64](to *T, n uint32) { *to = T(n) }

// close closes the descriptors, except for a descriptor that takeData or takeDir returned.
func (f *namedFile) close() {
	for _, fd := range []*int{&f.pathFD, &f.dataFD} {
		if *fd >= 0 {
			_ = unix.Close(*fd) // the file was not opened for writing, so an error of close means nothing
			*fd = -1
		}
	}
}

// takeData returns the descriptor for reading, which the caller closes. It returns nil if there is none.
func (f *namedFile) takeData() *sourceFile {
	if f.dataFD < 0 {
		return nil
	}
	h := &sourceFile{f.dataFD}
	f.dataFD = -1
	return h
}

// takeDir is takeData for a directory.
func (f *namedFile) takeDir() *os.File {
	h := f.takeData()
	if h == nil {
		return nil
	}
	return os.NewFile(uintptr(h.fd), procPath(h.fd))
}

// A sourceFile is a regular file that is open for reading. It is used instead of an os.File: os.NewFile would
// make further system calls to find out that the file cannot be polled.
type sourceFile struct{ fd int }

// ReadAt implements io.ReaderAt.
func (f *sourceFile) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		got, err := unix.Pread(f.fd, b[n:], off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return n, err
		case got == 0:
			return n, io.EOF
		default:
			n += got
		}
	}
	return n, nil
}

// Fd returns the descriptor.
func (f *sourceFile) Fd() uintptr { return uintptr(f.fd) }

// Close closes the file.
func (f *sourceFile) Close() { _ = unix.Close(f.fd) }

// openEntry returns the entry of a file. It opens a regular file or a directory for reading.
func (d *dirReader) openEntry(entryPath string, f *namedFile) (e stream.Entry, err error) {
	st := &f.st
	kind := st.Mode & unix.S_IFMT
	var xattrs []tree.Xattr
	if f.pathFD < 0 {
		xattrs, err = f.readXattrs(d.buf[:])
	} else {
		xattrs, err = d.readXattrsAndOpen(f, kind)
	}

	e = stream.Entry{Path: entryPath, Rdev: uint32(st.Rdev)}
	e.Meta = d.WithOwner(stream.Meta{Mode: st.Mode, Xattrs: xattrs, UID: st.Uid, GID: st.Gid, Atime: timeOf(st.Atim), Mtime: timeOf(st.Mtim), Ctime: recordedTime(st), Btime: f.birthTime})

	switch kind {
	case unix.S_IFLNK:
		n, err := unix.Readlinkat(f.pathFD, "", d.buf[:])
		e.Target = string(d.buf[:max(n, 0)])
		return e, err
	case unix.S_IFREG:
		if e.Size = st.Size; err != nil {
			return e, err
		}

		h := &sourceFile{f.dataFD}
		e.Data = stream.WithContext(d.ctx, io.NewSectionReader(h, 0, st.Size))
		if st.Blocks*512 < st.Size { // only a file with fewer blocks than bytes can have holes
			if parts := dataParts(f.dataFD, st.Size); len(parts) != 1 || parts[0].N != st.Size {
				data := make([]io.Reader, len(parts))
				for i, p := range parts {
					data[i] = io.NewSectionReader(h, p.Off, p.N)
				}
				e.Sparse, e.Parts, e.Data = true, parts, stream.WithContext(d.ctx, io.MultiReader(data...))
			}
		}
	}

	return e, err
}

// readXattrsAndOpen reads the extended attributes of a file that was opened by O_PATH, and opens a regular
// file or a directory for reading.
func (d *dirReader) readXattrsAndOpen(f *namedFile, kind uint32) (xattrs []tree.Xattr, err error) {
	proc := procPath(f.pathFD)
	err = d.asOwner(f.pathFD, &f.st, unix.S_IRUSR, func() (err error) {
		if xattrs, err = readXattrs(proc, d.buf[:]); err == nil && (kind == unix.S_IFDIR || kind == unix.S_IFREG) {
			f.dataFD, err = openFile(proc, 0)
		}
		return err
	})

	// Read the access control list again: it contains the mode of the file, and asOwner may have changed the
	// mode while the list was read above.
	for i, x := range xattrs {
		if x.Name == "system.posix_acl_access" {
			n, aclErr := unix.Getxattr(proc, x.Name, d.buf[:])
			xattrs[i].Value, err = slices.Clone(d.buf[:max(n, 0)]), errors.Join(err, aclErr)
		}
	}

	return xattrs, err
}

// openFile opens a file for reading, with further flags of open(2). It returns -1 if this fails.
func openFile(name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(name, flags|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// asOwner calls fn, which accesses a file. fd is a descriptor (O_PATH) of the file. If the access is denied,
// asOwner adds the permissions in perm to the file's mode, calls fn again, and restores the mode. Then it sets
// st to the new status.
func (d *dirReader) asOwner(fd int, st *unix.Stat_t, perm uint32, fn func() error) error {
	err := fn()
	if !d.o.ReadDenied || !errors.Is(err, unix.EACCES) || unix.Fstat(fd, st) != nil || !mayChmod(st) {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		perm = openMode
	}
	if unix.Chmod(procPath(fd), st.Mode&0o7777|perm) != nil {
		return err
	}

	err = fn()
	return errors.Join(err, unix.Chmod(procPath(fd), st.Mode&0o7777), unix.Fstat(fd, st))
}

// readXattrs reads the extended attributes of the file at proc, a path in /proc. buf is long enough for the
// longest attribute.
func readXattrs(proc string, buf []byte) ([]tree.Xattr, error) {
	n, err := unix.Listxattr(proc, buf)
	return readListedXattrs(buf, n, err, func(name string) (int, error) { return unix.Getxattr(proc, name, buf) })
}

// readXattrs reads the extended attributes of a file that is open for reading.
func (f *namedFile) readXattrs(buf []byte) ([]tree.Xattr, error) {
	n, err := unix.Flistxattr(f.dataFD, buf)
	return readListedXattrs(buf, n, err, func(name string) (int, error) { return unix.Fgetxattr(f.dataFD, name, buf) })
}

// readListedXattrs reads the extended attributes whose names are in the first n bytes of buf, or returns the error of
// listing them. get reads one of them into buf.
func readListedXattrs(buf []byte, n int, err error, get func(name string) (int, error)) (xs []tree.Xattr, _ error) {
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing extended attributes: %w", err)
	}

	for _, name := range strings.Split(string(buf[:n]), "\x00") {
		if name == "" {
			continue // the empty text after the last NUL
		}
		n, err := get(name)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the extended attribute %s: %w", name, err)
		}
		xs = append(xs, tree.Xattr{Name: name, Value: slices.Clone(buf[:n])})
	}

	stream.SortXattrs(xs)

	return xs, nil
}
