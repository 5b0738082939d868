package content

import (
	"fmt"
	"io"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// ErrNoData means that a file has no data at or after the offset (ENXIO).
var ErrNoData = errs.NoData

// Reader returns a reader of the file. The file must not change while the reader is used.
func (c *Content) Reader(src *Source) *io.SectionReader {
	return io.NewSectionReader(readerAt{c, src}, 0, c.Size())
}

type readerAt struct {
	c   *Content
	src *Source
}

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.c.ReadAt(r.src, p, off)
	if err != nil {
		return n, err
	}
	if n < len(p) {
		return n, io.EOF
	}

	return n, nil
}

// ReadAt fills p with the bytes at off and returns their number. The number is less than len(p) only at the end
// of the file, which is no error. Holes read as zeros. The bytes of sealed chunks are checked against the chunk's
// hash.
func (c *Content) ReadAt(src *Source, p []byte, off int64) (int, error) {
	if c == nil {
		return 0, nil
	}

	for {
		l := c.layout.Load()
		n, err := l.readAt(src, p, off)
		// After the layout was replaced, the journal may have dropped bytes that only the old layout
		// refers to. So the bytes and the error of the old layout may be wrong.
		if c.layout.Load() == l {
			return n, err
		}
	}
}

func (l *layout) readAt(src *Source, p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, nil
	}
	l.eachRun(off, off+int64(len(p)), func(_ int64, e extent) bool {
		err = e.read(src, p[n:n+int(e.n)])
		n += int(e.n)
		return err == nil
	})
	if err != nil {
		return 0, err
	}

	return n, nil
}

// Runs are the places of a part of a file, at the time of RunsOf. They do not change, so the caller reads them
// without the lock of the file. If the journal or the chunk store has dropped the bytes later, Read fails with an
// error that has no kind of package errs.
type Runs []extent

// RunsOf returns the runs of the n bytes at off, but at most the first limit runs. At the end of the file the runs
// may have fewer than n bytes.
func RunsOf(c *Content, off int64, n, limit int) (r Runs) {
	if c == nil || off < 0 {
		return nil
	}
	c.layout.Load().eachRun(off, off+int64(n), func(_ int64, e extent) bool {
		r = append(r, e)
		return len(r) < limit
	})

	return r
}

// Equal reports whether r and o have equal runs.
func (r Runs) Equal(o Runs) bool {
	return slices.EqualFunc(r, o, func(a, b extent) bool {
		same := a.base == b.base || a.inBase() && b.inBase() && a.base.equal(b.base)
		a.base, b.base = nil, nil
		return same && a == b
	})
}

// Read fills p with the bytes of all runs, and returns their number.
func (r Runs) Read(src *Source, p []byte) (n int, err error) {
	for _, e := range r {
		if err := e.read(src, p[n:n+int(e.n)]); err != nil {
			return 0, err
		}
		n += int(e.n)
	}
	return n, nil
}

// read fills p with all bytes of e.
func (e extent) read(src *Source, p []byte) error {
	switch {
	case e.inBase():
		return e.base.readAt(src, p, e.pos)
	case e.inJournal():
		if err := src.log.ReadAt(p, e.pos, e.payloadPos); err != nil {
			return fmt.Errorf("read %d bytes at journal position %d: %w", len(p), e.pos, err)
		}
	default:
		clear(p)
	}
	return nil
}

// readAt fills p with the bytes at off. All of them must be in the file.
func (b *ChunkMap) readAt(src *Source, p []byte, off int64) error {
	c := b.cursor(src)

	for len(p) > 0 {
		if err := c.seek(off); err != nil {
			return err
		}
		if c.atEnd() {
			return fmt.Errorf("%w: file ends at %d, not at %d", wire.ErrMalformed, c.off, b.n)
		}

		part := p[:min(int64(len(p)), c.end()-off)]
		if !c.cur.hasData() {
			clear(part)
		} else if err := src.readChunk(&c.cur, part, off-c.off, b.depth > 0 && c.cur.n < smallChunkLen); err != nil {
			return err
		}

		p = p[len(part):]
		off += int64(len(part))
	}

	return nil
}

// SeekBlockSize is the unit in which lseek(2) distinguishes data from holes, as on other file systems. Programs that
// read with O_DIRECT, such as qemu-img, expect holes in whole blocks.
const SeekBlockSize = 4096

// SeekData returns the first offset, at or after off, in a block of blockSize bytes that has
// data. Reservations are not data. The error is ErrNoData if there is no such block.
func (c *Content) SeekData(src *Source, off, blockSize int64) (int64, error) {
	off = max(off, 0)
	if off >= c.Size() {
		return 0, ErrNoData
	}

	l := c.layout.Load()
	found, err := l.firstDataIn(src, off-off%blockSize, l.size)
	if err != nil {
		return 0, err
	}
	if found >= l.size {
		return 0, ErrNoData
	}

	return max(off, found-found%blockSize), nil
}

// firstDataIn returns the offset of the first data in [off, end), or end.
func (l *layout) firstDataIn(src *Source, off, end int64) (int64, error) {
	found := end
	err := l.eachKind(src, off, end, false, func(at int64, it item) bool {
		if it.hasData() {
			found = at
		}
		return !it.hasData()
	})

	return found, err
}

// SeekHole returns the first offset, at or after off, in a block of blockSize bytes without data, or
// the end of the file. The error is ErrNoData if off is not in the file.
func (c *Content) SeekHole(src *Source, off, blockSize int64) (int64, error) {
	off = max(off, 0)
	if off >= c.Size() {
		return 0, ErrNoData
	}

	l := c.layout.Load()
	hole, err := l.firstHoleIn(src, off-off%blockSize, l.size, blockSize)
	return max(off, hole), err
}

// firstHoleIn returns the offset of the first block of blockSize bytes in [begin, limit) without data, or
// limit. Data outside of [begin, limit) does not count.
func (l *layout) firstHoleIn(src *Source, begin, limit, blockSize int64) (int64, error) {
	end := begin // the end of the data found so far, rounded up to a block
	err := l.eachKind(src, begin, limit, false, func(at int64, it item) bool {
		if !it.hasData() {
			return true
		}
		if at-at%blockSize > end {
			return false
		}

		end = at + it.n
		if rest := end % blockSize; rest > 0 {
			end += blockSize - rest
		}

		return true
	})

	return min(end, limit), err
}

// span is the part [off, end) of a file.
type span struct{ off, end int64 }

// holes returns the parts of [off, end) that have no blocks.
func (l *layout) holes(src *Source, off, end int64) (holes []span, err error) {
	err = l.eachKind(src, off, end, false, func(at int64, it item) bool {
		if it.holeBytes > 0 {
			holes = append(holes, span{at, at + it.n})
		}
		return true
	})
	return holes, err
}
