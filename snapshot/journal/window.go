package journal

import (
	"errors"
	"io"
)

const windowSize = 256 << 10

// A window reads a file forward through one buffer.
type window struct {
	r       io.ReaderAt
	lenient bool // what the disk cannot read is taken for zeros
	buf     []byte
	start   int64 // offset of buf[0] in the file
}

// at returns the n bytes at off, fewer where the file ends. They are good until
// the next call.
func (w *window) at(off int64, n int) ([]byte, error) {
	if off >= w.start && off+int64(n) <= w.start+int64(len(w.buf)) {
		return w.buf[off-w.start:][:n], nil
	}
	size := max(n, windowSize)
	if cap(w.buf) < size {
		w.buf = make([]byte, size)
	}
	b := w.buf[:size]
	k, err := w.r.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		if !w.lenient {
			w.buf = w.buf[:0]
			return nil, err
		}
		k = w.blocks(b, off)
	}
	w.buf, w.start = b[:k], off
	return w.buf[:min(n, k)], nil
}

// blocks reads what can be read, block by block, and returns how far the file goes.
func (w *window) blocks(b []byte, off int64) int {
	for done := 0; done < len(b); {
		part := b[done:min(done+blockSize, len(b))]
		k, err := w.r.ReadAt(part, off+int64(done))
		if errors.Is(err, io.EOF) {
			return done + k
		}
		if err != nil {
			clear(part)
		}
		done += len(part)
	}
	return len(b)
}
