package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrNotSupported: the filesystem cannot Punch or Allocate.
var ErrNotSupported = errors.New("operation not supported by the filesystem")

// A File is an open file. ReadAt and WriteAt may be called concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the bytes and the size durable (fdatasync). After an error
	// nothing is known about anything written since the last success.
	Sync() error
	// Truncate sets the size in bytes.
	Truncate(size int64) error
	// Allocate reserves disk space for [off, off+n) and extends the file to
	// off+n if it is shorter. The new bytes read as zero.
	Allocate(off, n int64) error
	// Punch gives the space of the whole blocks in [off, off+n) back and makes
	// the range read as zero. The size stays. Bytes beyond the end are ignored.
	Punch(off, n int64) error
	// Size returns the size in bytes.
	Size() (int64, error)
}

type Info struct {
	Name      string // base name
	Size      int64  // bytes
	Allocated int64  // bytes of disk that it occupies
	Dir       bool
	Modified  time.Time
}

// An FS is a disk. Names are paths as the os package takes them. Errors satisfy
// errors.Is with fs.ErrNotExist, fs.ErrExist and the syscall.Errno values, so a
// full disk is syscall.ENOSPC.
type FS interface {
	// OpenFile opens a file with os.O_ flags.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// ReadDir lists a directory in the order of the names.
	ReadDir(name string) ([]Info, error)
	MkdirAll(name string, perm fs.FileMode) error
	// SyncDir makes the names in a directory durable.
	SyncDir(name string) error
	Stat(name string) (Info, error)
	// Free returns how many bytes can still be written on the disk of the directory.
	Free(dir string) (int64, error)
	// Total returns how many bytes that disk holds.
	Total(dir string) (int64, error)
}

// Create makes the file name, open for reading and writing, for its owner alone. It
// replaces one of that name: what that is linked to stays as it is.
func Create(fsys FS, name string) (File, error) {
	const flag = os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := fsys.OpenFile(name, flag, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := fsys.Remove(name); err != nil {
		return nil, err
	}
	return fsys.OpenFile(name, flag, 0o600)
}

func Open(fsys FS, name string) (File, error) {
	return fsys.OpenFile(name, os.O_RDONLY, 0)
}

func OpenWrite(fsys FS, name string) (File, error) {
	return fsys.OpenFile(name, os.O_RDWR, 0)
}

// IsDamage reports whether an error of reading a file says that something of it is
// lost, and not only that it cannot be read just now, as with too many open files.
func IsDamage(err error) bool {
	if err == nil || errors.Is(err, ErrNotRegular) || errors.Is(err, ErrLinked) {
		return false
	}
	var errno syscall.Errno
	return !errors.As(err, &errno) || errno == syscall.EIO || errno == syscall.ENOENT ||
		errno == syscall.EUCLEAN || errno == syscall.EBADMSG
}

// maxReadFile is the size in bytes up to which ReadFile reads a file. What a store
// keeps in files that are read whole is far less.
const maxReadFile = 128 << 20

// ReadFile returns the whole content of a file; EFBIG if it has more than maxReadFile bytes.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := Open(fsys, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxReadFile {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EFBIG}
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF && int64(n) == size {
		err = nil
	}
	return b[:n], err
}

// WriteSynced writes a new file and syncs it, but not its directory.
func WriteSynced(fsys FS, name string, b []byte) error {
	f, err := Create(fsys, name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// WriteFile replaces the content of a file durably and atomically.
func WriteFile(fsys FS, name string, b []byte) error {
	tmp := name + ".tmp"
	err := WriteSynced(fsys, tmp, b)
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		// The half-made file is of no use to anyone; that it may stay is harmless.
		_ = fsys.Remove(tmp)
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}
