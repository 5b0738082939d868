package vfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrNotSupported means that the filesystem cannot Punch or Allocate.
var ErrNotSupported = errors.New("operation not supported by the filesystem")

// A File is an open file. ReadAt and WriteAt may be called concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the bytes and the size durable (fdatasync). If it fails, all writes since the last
	// successful Sync may be lost.
	Sync() error
	// Truncate sets the size in bytes.
	Truncate(size int64) error
	// Allocate reserves disk space for [off, off+n) and extends the file to
	// off+n if it is shorter. The new bytes read as zero.
	Allocate(off, n int64) error
	// Punch frees the whole blocks in [off, off+n), and makes the range read as zero. The size does not
	// change. Bytes beyond the end are ignored.
	Punch(off, n int64) error
	// Size returns the size in bytes.
	Size() (int64, error)
}

// Info describes a file or a directory.
type Info struct {
	Name      string // base name
	Size      int64  // bytes
	Allocated int64  // bytes on disk
	IsDir     bool
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
	// Free returns the number of free bytes on the disk of the directory.
	Free(dir string) (int64, error)
	// Total returns the size in bytes of the disk of the directory.
	Total(dir string) (int64, error)
}

// Create creates the file name, open for reading and writing, for its owner alone. If the name exists,
// it is removed first: other names of that file, and the target of a link, do not change.
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

// Open opens a file for reading.
func Open(fsys FS, name string) (File, error) {
	return fsys.OpenFile(name, os.O_RDONLY, 0)
}

// OpenWrite opens a file for reading and writing.
func OpenWrite(fsys FS, name string) (File, error) {
	return fsys.OpenFile(name, os.O_RDWR, 0)
}

// IsDamage reports whether an error of reading a file means that data of the file is lost. Otherwise the
// file may be readable later, for example when fewer files are open.
func IsDamage(err error) bool {
	if err == nil || errors.Is(err, ErrNotRegular) || errors.Is(err, ErrLinked) {
		return false
	}
	var errno syscall.Errno
	return !errors.As(err, &errno) || errno == syscall.EIO || errno == syscall.ENOENT ||
		errno == syscall.EUCLEAN || errno == syscall.EBADMSG
}

// maxReadFileSize is the largest size in bytes for ReadFile. The files that a store reads with it are much
// smaller.
const maxReadFileSize = 128 << 20

// ReadFile returns the whole content of a file. It fails with EFBIG for more than maxReadFileSize bytes.
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
	if size > maxReadFileSize {
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

	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Sync()
	}

	return cmp.Or(err, f.Close())
}

// WriteFile replaces the content of a file durably and atomically.
func WriteFile(fsys FS, name string, b []byte) error {
	tmp := name + ".tmp"
	err := WriteSynced(fsys, tmp, b)
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		_ = fsys.Remove(tmp) // if it fails, the file stays until the next WriteFile
		return err
	}

	return fsys.SyncDir(filepath.Dir(name))
}

// Erase overwrites a file and removes it, so that its bytes are not in the free space of the disk. A file
// with a second hard link is removed, but not overwritten.
func Erase(fsys FS, name string) error {
	f, err := OpenWrite(fsys, name)
	if errors.Is(err, ErrLinked) {
		return fsys.Remove(name)
	}
	if err != nil {
		return err
	}

	size, err := f.Size()
	if err == nil {
		err = Overwrite(f, 0, size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}

	return fsys.Remove(name)
}

// Overwrite writes zeros between two offsets of a file. When the zeros are synced, the old bytes are no longer on the
// disk. This is not so if the filesystem copies on write, or if the disk is flash memory: there the old bytes stay
// until their space is used again.
func Overwrite(f File, from, to int64) error {
	zeros := make([]byte, min(max(to-from, 0), 1<<20))

	for ; from < to; from += int64(len(zeros)) {
		zeros = zeros[:min(to-from, int64(len(zeros)))]
		if _, err := f.WriteAt(zeros, from); err != nil {
			return fmt.Errorf("overwrite: %w", err)
		}
	}

	return nil
}
