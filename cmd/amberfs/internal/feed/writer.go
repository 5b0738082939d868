package feed

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/amberfs/amberfs/gitbridge"
)

const (
	kindDir     = 'd'
	kindFile    = 'f'
	kindSparse  = 'p'
	kindSymlink = 'l'
	kindLink    = 'h'
	kindSpecial = 's'
	kindEnd     = '.'
)

// bufferSize of both sides, in bytes.
const bufferSize = 256 << 10

// Writer sends what it is given as a Sink.
type Writer struct {
	w   *bufio.Writer
	num [binary.MaxVarintLen64]byte
	buf []byte
}

var _ gitbridge.Sink = (*Writer)(nil)

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: bufio.NewWriterSize(w, bufferSize), buf: make([]byte, 64<<10)}
}

// Close ends the stream: what was sent is the whole tree.
func (w *Writer) Close() error {
	w.w.WriteByte(kindEnd)
	return w.w.Flush()
}

func (w *Writer) uint(v uint64) { w.w.Write(w.num[:binary.PutUvarint(w.num[:], v)]) }
func (w *Writer) int(v int64)   { w.w.Write(w.num[:binary.PutVarint(w.num[:], v)]) }

func (w *Writer) text(s string) {
	w.uint(uint64(len(s)))
	w.w.WriteString(s)
}

func (w *Writer) head(kind byte, path string, m gitbridge.Meta) {
	w.w.WriteByte(kind)
	w.text(path)
	w.uint(uint64(m.Mode))
	w.uint(uint64(m.UID))
	w.uint(uint64(m.GID))
	w.int(m.Atime)
	w.int(m.Mtime)
	w.uint(uint64(len(m.Xattrs)))
	for _, x := range m.Xattrs {
		w.text(x.Name)
		w.uint(uint64(len(x.Value)))
		w.w.Write(x.Value)
	}
}

// failed returns the error of any write before: a bufio.Writer keeps it.
func (w *Writer) failed() error {
	_, err := w.w.Write(nil)
	return err
}

// Dir implements gitbridge.Sink.
func (w *Writer) Dir(path string, m gitbridge.Meta) error {
	w.head(kindDir, path, m)
	return w.failed()
}

// File implements gitbridge.Sink.
func (w *Writer) File(path string, m gitbridge.Meta, size int64, r io.Reader) error {
	if sparse, ok := r.(gitbridge.SparseReader); ok {
		w.head(kindSparse, path, m)
		w.uint(uint64(size))
		return w.parts(path, sparse)
	}
	w.head(kindFile, path, m)
	w.uint(uint64(size))
	n, err := io.CopyBuffer(onlyWriter{w.w}, io.LimitReader(r, size), w.buf)
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return explain(path, err)
}

// onlyWriter hides ReadFrom, which would make a buffer of its own.
type onlyWriter struct{ io.Writer }

func (w *Writer) parts(path string, r gitbridge.SparseReader) error {
	for {
		off, err := r.Next()
		if errors.Is(err, io.EOF) {
			w.uint(0)
			return w.failed()
		}
		if err != nil {
			return explain(path, err)
		}
		w.uint(uint64(off) + 1)
		for {
			n, err := r.Read(w.buf)
			if n > 0 {
				w.uint(uint64(n))
				w.w.Write(w.buf[:n])
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = w.failed()
			}
			if err != nil {
				return explain(path, err)
			}
		}
		w.uint(0)
	}
}

// explain says in words that a file ended too early.
func explain(path string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("reading %q: it became shorter while it was read: %w", path, err)
	}
	return err
}

// Symlink implements gitbridge.Sink.
func (w *Writer) Symlink(path, target string, m gitbridge.Meta) error {
	w.head(kindSymlink, path, m)
	w.text(target)
	return w.failed()
}

// Hardlink implements gitbridge.Sink.
func (w *Writer) Hardlink(path, old string) error {
	w.w.WriteByte(kindLink)
	w.text(path)
	w.text(old)
	return w.failed()
}

// Special implements gitbridge.Sink.
func (w *Writer) Special(path string, m gitbridge.Meta, rdev uint32) error {
	w.head(kindSpecial, path, m)
	w.uint(uint64(rdev))
	return w.failed()
}
