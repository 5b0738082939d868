package gitbridge

import (
	"archive/tar"
	"bufio"
	"bytes"
	"io"
	"strings"
)

// isSparse reports whether an archive stores a file without its holes.
func isSparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// zeroHoles is a sparse file of an archive. archive/tar fills its holes with
// zeros and does not tell where they were, so each block of zeros is taken for
// one.
type zeroHoles struct {
	r    *bufio.Reader
	at   int64 // in the file, of what r yields next
	left int64 // bytes of the file from there on
	data bool  // a part has been begun
}

// holeSize is the unit of holes, as in most file systems.
const holeSize = 4096

func newZeroHoles(r io.Reader, size int64) *zeroHoles {
	return &zeroHoles{r: bufio.NewReaderSize(r, holeSize), left: size}
}

// block looks at the rest of the block that comes next. It is nil at the end of
// the file, and if all of a block is zeros.
func (z *zeroHoles) block() (b []byte, size int64, err error) {
	within := z.at % holeSize
	size = min(z.left, holeSize-within)
	b, err = z.r.Peek(int(size))
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if within == 0 && bytes.Equal(b, zeros[:size]) {
		b = nil
	}
	return b, size, err
}

var zeros [holeSize]byte

// pass goes on by n bytes, which block has shown.
func (z *zeroHoles) pass(n int64) {
	_, _ = z.r.Discard(int(n))
	z.at += n
	z.left -= n
}

// Next implements SparseReader.
func (z *zeroHoles) Next() (int64, error) {
	if _, err := io.Copy(io.Discard, z); err != nil {
		return 0, err
	}
	for z.left > 0 {
		b, size, err := z.block()
		if err != nil {
			return 0, err
		}
		if z.data = b != nil; z.data {
			return z.at, nil
		}
		z.pass(size)
	}
	return z.at, io.EOF
}

// Read implements SparseReader.
func (z *zeroHoles) Read(p []byte) (int, error) {
	if !z.data {
		return 0, io.EOF
	}
	b, _, err := z.block()
	if z.data = len(b) > 0; err != nil {
		return 0, err
	}
	if !z.data {
		return 0, io.EOF
	}
	n := copy(p, b)
	z.pass(int64(n))
	return n, nil
}
