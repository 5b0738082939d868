package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
)

// A content is what a file says: in memory when it is small, else in a file without a
// name on the store's disk. Whoever keeps one holds a reference; the nil content is
// empty. Tree.mu guards the references.
type content struct {
	small []byte
	file  *os.File
	size  int64
	refs  int
	owner *tenant // who is charged for the file, nil as long as it is not kept
}

func small(b []byte) *content { return &content{small: b, size: int64(len(b)), refs: 1} }

func (c *content) Size() int64 {
	if c == nil {
		return 0
	}
	return c.size
}

// bytes returns what is in memory.
func (c *content) bytes() []byte {
	if c == nil {
		return nil
	}
	return c.small
}

// ReadAt reads up to len(p) bytes, less at the end.
func (c *content) ReadAt(p []byte, off int64) (int, error) {
	if off >= c.Size() {
		return 0, nil
	}
	p = p[:min(int64(len(p)), c.size-off)]
	if c.file == nil {
		return copy(p, c.small[off:]), nil
	}
	n, err := c.file.ReadAt(p, off)
	if n == len(p) || errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// equal reports whether two contents say the same; large ones are not compared.
func (c *content) equal(o *content) bool {
	switch {
	case c.Size() != o.Size():
		return false
	case c.Size() == 0 || c == o:
		return true
	}
	return c.file == nil && o.file == nil && bytes.Equal(c.small, o.small)
}

func (c *content) retain() *content {
	if c != nil {
		c.refs++
	}
	return c
}

func (c *content) release() {
	if c == nil {
		return
	}
	if c.refs--; c.refs == 0 && c.file != nil {
		_ = c.file.Close()
		if c.owner != nil {
			c.owner.stored -= c.size
		}
	}
}

const (
	// maxSmall is the largest content that stays in memory, in bytes.
	maxSmall = 64 << 10
	// maxContent is the largest one, in bytes.
	maxContent = 256 << 20
)

// A contentWriter makes a content of what is written to it.
type contentWriter struct {
	store *snapshot.Store
	buf   bytes.Buffer
	file  *os.File
	size  int64
}

func (w *contentWriter) Write(p []byte) (int, error) {
	if w.size += int64(len(p)); w.size > maxContent {
		return 0, fmt.Errorf("%w: it has more than %d MiB; over the store's socket there is no limit", errs.TooBig, maxContent>>20)
	}
	if w.buf.Len()+len(p) > maxSmall {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) > maxSmall {
		return w.file.Write(p)
	}
	return w.buf.Write(p)
}

// flush moves what is in memory to the disk.
func (w *contentWriter) flush() (err error) {
	if free, err := w.store.Free(); err != nil || free < maxContent {
		return errors.Join(errs.New(errs.NoSpace, "no space for what is to be shown"), err)
	}
	if w.file == nil {
		if w.file, err = unnamed(w.store.Dir()); err != nil {
			return err
		}
	}
	_, err = w.buf.WriteTo(w.file)
	return err
}

// unnamed makes a file without a name, which is gone when it is closed.
func unnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), filepath.Join(dir, "rendering")), nil
	}
	f, err := os.CreateTemp(dir, "rendering-*") // the disk knows no O_TMPFILE
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// content ends the writing. The caller owns the reference.
func (w *contentWriter) content() (*content, error) {
	if w.file == nil {
		return small(w.buf.Bytes()), nil
	}
	if err := w.flush(); err != nil {
		w.discard()
		return nil, err
	}
	return &content{file: w.file, size: w.size, refs: 1}, nil
}

func (w *contentWriter) discard() {
	if w.file != nil {
		_ = w.file.Close()
	}
}
