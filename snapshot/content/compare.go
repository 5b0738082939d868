package content

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/amberfs/amberfs/cas"
)

// Equal reports whether two files have the same bytes. Holes and reservations count
// as zeros. It does not read parts that are known to be equal, and stops at the first difference.
func (c *Content) Equal(src *Source, o *Content) (bool, error) {
	if c.Size() != o.Size() {
		return false, nil
	}
	if c == o || c.Size() == 0 || c.KnownEqual(o) {
		return true, nil
	}
	if x, y := c.sealedMap.Load(), o.sealedMap.Load(); x != nil && y != nil && x.isAllData() && y.isAllData() {
		return false, nil // equal bytes would be in equal chunks
	}

	// Collect parts that may differ, and compare them when they are long enough.
	same, r := true, diffRange{}
	var err error
	compare := func() bool {
		if r.from < r.to {
			same, err = sameBytes(src, c, o, r.from, r.to-r.from)
		}
		return same && err == nil
	}

	eachRunPair(c.layout.Load(), o.layout.Load(), func(off int64, x, y extent) bool {
		switch {
		case x.readsZeros() && y.readsZeros():
			if off == r.zerosEnd && x.n < minSkippedBytes {
				r.zerosEnd += x.n
			}
		case x == y, x.inBase() && y.inBase() && x.pos == y.pos && x.base.equal(y.base):
		default:
			if off != r.zerosEnd || off-r.from >= maxDiffRangeBytes {
				if !compare() {
					return false
				}
				r.from = off
			}
			r.to, r.zerosEnd = off+x.n, off+x.n
		}
		return true
	})
	if same && err == nil {
		compare()
	}
	if err != nil {
		return false, fmt.Errorf("compare files: %w", err)
	}

	return same, nil
}

// A diffRange is a part [from, to) in which two files may differ. It joins many small extents, so that they are
// compared at once.
type diffRange struct {
	from, to int64
	zerosEnd int64 // in [to, zerosEnd) both files have only zeros
}

// maxDiffRangeBytes is the length in bytes at which a diffRange is compared.
const maxDiffRangeBytes = 1 << 20

// KnownEqual reports whether two contents are known to be equal, including their holes and
// reservations. It reads no object.
func (c *Content) KnownEqual(o *Content) bool {
	if c == o {
		return true
	}
	if c == nil || o == nil {
		return false
	}

	x, y := c.sealedMap.Load(), o.sealedMap.Load()
	return x != nil && y != nil && x.equal(y)
}

var compareBuffers = sync.Pool{New: func() any { return new([2][64 << 10]byte) }}

// sameBytes reports whether [off, off+n) of two files has equal bytes. It skips parts in which neither
// has data.
func sameBytes(src *Source, a, b *Content, off, n int64) (bool, error) {
	for end := off + n; off < end; {
		from, to, err := firstDataOfEither(src, a.layout.Load(), b.layout.Load(), off, end)
		if err != nil || from >= end {
			return err == nil, err
		}
		if same, err := sameData(src, a, b, from, to-from); !same || err != nil {
			return false, err
		}

		off = to
	}
	return true, nil
}

// minSkippedBytes is the shortest part without data that is skipped in a comparison.
const minSkippedBytes = 64 << 10

// firstDataOfEither returns the first part [from, to) of [off, end) in which one of two files has data; without data,
// from is end. It does not look beyond end: otherwise the comparison of many small parts of a file would read the
// rest of the file for each part.
func firstDataOfEither(src *Source, x, y *layout, off, end int64) (from, to int64, err error) {
	from, first := end, x

	for _, l := range []*layout{x, y} {
		at, err := l.firstDataIn(src, off, end)
		if err != nil {
			return 0, 0, err
		}
		if at < from {
			from, first = at, l
		}
	}
	if from == end {
		return end, end, nil
	}

	to, err = first.firstHoleIn(src, from, end, minSkippedBytes)
	return from, to, err
}

// sameData reads [off, off+n) of two files and reports whether the bytes are equal.
func sameData(src *Source, a, b *Content, off, n int64) (bool, error) {
	buf := compareBuffers.Get().(*[2][64 << 10]byte)
	defer compareBuffers.Put(buf)

	for n > 0 {
		p, q := buf[0][:], buf[1][:]
		if n < int64(len(p)) {
			p, q = p[:n], q[:n]
		}

		k, err := a.ReadAt(src, p, off)
		if err != nil {
			return false, err
		}

		m, err := b.ReadAt(src, q, off)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(p[:k], q[:m]) {
			return false, nil
		}

		off += int64(len(p))
		n -= int64(len(p))
	}

	return true, nil
}

// A Piece is a run of bytes on disk: a whole chunk, with its hash as Key, or a part of
// the journal, with a Key made of its position. If two parts of the journal have the
// same Key, the longer one contains the other.
type Piece struct {
	Key   cas.Hash
	Bytes int64
}

// NewPieces calls fn for the pieces of c that the earlier version old does not have. Holes and reservations are no
// pieces. If c has more extents than old, fn is also called for their memory, as one piece without a key.
func (c *Content) NewPieces(src *Source, old *Content, fn func(Piece)) error {
	if c == old {
		return nil
	}
	known, newest := make(map[cas.Hash]bool), int64(0)
	err := old.eachPiece(src, func(key cas.Hash, n, pos int64) { known[key], newest = true, max(newest, pos+n) })
	if err != nil {
		return err
	}
	if more := c.ExtentCount() - max(1, old.ExtentCount()); more > 0 {
		fn(Piece{Bytes: ExtentBytes * int64(more)})
	}

	return c.eachPiece(src, func(key cas.Hash, n, pos int64) {
		if pos < 0 && !known[key] || pos >= newest { // an unknown chunk, or bytes that were written after the bytes of old
			fn(Piece{key, n})
		}
	})
}

// noPos is used as the journal position of a chunk, which is not in the journal. It is so small that the sum of
// noPos and any length is negative.
const noPos = math.MinInt64

// eachPiece calls fn for each piece of the file. pos is its position in the journal, or noPos. A chunk
// counts in full, even if the file uses only a part of it.
func (c *Content) eachPiece(src *Source, fn func(key cas.Hash, n, pos int64)) (err error) {
	if c == nil {
		return nil
	}
	c.Rebase()
	l := c.layout.Load()
	l.eachRun(0, l.size, func(_ int64, e extent) bool {
		switch {
		case e.inBase():
			err = e.base.eachPiece(src, e.pos, e.n, func(key cas.Hash, n int64) { fn(key, n, noPos) })
		case e.inJournal():
			var key cas.Hash
			binary.LittleEndian.PutUint64(key[:], uint64(e.pos))
			key[len(key)-1] = 1
			fn(key, e.n, e.pos)
		}
		return err == nil
	})

	return err
}

// eachPiece calls fn for the chunks of [off, off+n).
func (b *ChunkMap) eachPiece(src *Source, off, n int64, fn func(key cas.Hash, n int64)) error {
	c := b.cursor(src)
	c.noCache = true
	for !c.atEnd() && c.off < off+n {
		step := c.next
		if c.end() > off && c.cur.hasData() {
			if c.level > 0 {
				step = c.enter
			} else {
				fn(c.cur.hash, c.cur.n)
			}
		}

		if err := step(); err != nil {
			return err
		}
	}

	return nil
}
