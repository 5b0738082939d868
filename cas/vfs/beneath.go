package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Beneath is the real disk for the files below one directory, which stays the
// same one when it is moved, or removed and another made in its place. Names and
// errors have the path that the directory had in the beginning.
type Beneath struct {
	root *os.File
	dir  string // its path in the beginning
	real string // its path now and later; dir, if there is none
}

// OpenBeneath opens a directory for Beneath. Without a mounted /proc, it is found
// by its path each time.
func OpenBeneath(dir string) (*Beneath, error) {
	dir = filepath.Clean(dir)
	root, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	b := &Beneath{root: root, dir: dir, real: fmt.Sprintf("/proc/self/fd/%d", root.Fd())}
	want, err := root.Stat()
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if got, err := os.Stat(b.real); err != nil || !os.SameFile(got, want) {
		b.real = dir
	}
	return b, nil
}

// Close closes the directory. Files that are open stay so.
func (b *Beneath) Close() error { return b.root.Close() }

// Path returns a path that leads to name while b is open, wherever the directory
// is now.
func (b *Beneath) Path(name string) string {
	if rest, ok := strings.CutPrefix(name, b.dir); ok && (rest == "" || rest[0] == '/') {
		return b.real + rest
	}
	return name
}

// as gives an error the name that the caller knows.
func as(err error, names ...string) error {
	switch e := err.(type) { //nolint:errorlint // as the os package returns it
	case *fs.PathError:
		e.Path = names[0]
	case *os.LinkError:
		e.Old, e.New = names[0], names[len(names)-1]
	}
	return err
}

// OpenFile is that of FS.
func (b *Beneath) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	for {
		fd, err := unix.Open(b.Path(name), flag|unix.O_CLOEXEC, uint32(perm.Perm()))
		switch {
		case err == nil:
			return &osFile{os.NewFile(uintptr(fd), name)}, nil
		case err != unix.EINTR:
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// Rename is that of FS.
func (b *Beneath) Rename(from, to string) error {
	return as(OS.Rename(b.Path(from), b.Path(to)), from, to)
}

// Remove is that of FS.
func (b *Beneath) Remove(name string) error { return as(OS.Remove(b.Path(name)), name) }

// ReadDir is that of FS.
func (b *Beneath) ReadDir(name string) ([]Info, error) {
	infos, err := OS.ReadDir(b.Path(name))
	return infos, as(err, name)
}

// MkdirAll is that of FS.
func (b *Beneath) MkdirAll(name string, perm fs.FileMode) error {
	return as(OS.MkdirAll(b.Path(name), perm), name)
}

// SyncDir is that of FS.
func (b *Beneath) SyncDir(name string) error { return as(OS.SyncDir(b.Path(name)), name) }

// Stat is that of FS.
func (b *Beneath) Stat(name string) (Info, error) {
	i, err := OS.Stat(b.Path(name))
	return i, as(err, name)
}

// Free is that of FS.
func (b *Beneath) Free(dir string) (int64, error) {
	n, err := OS.Free(b.Path(dir))
	return n, as(err, dir)
}

// Total is that of FS.
func (b *Beneath) Total(dir string) (int64, error) {
	n, err := OS.Total(b.Path(dir))
	return n, as(err, dir)
}
