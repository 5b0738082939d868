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
// as zeros. It reads only what is not known to be the same, up to the first difference.
func (c *Content) Equal(src *Source, o *Content) (bool, error) {
	if c.Size() != o.Size() {
		return false, nil
	}
	if c == o || c.Size() == 0 || c.SurelyEqual(o) {
		return true, nil
	}
	if x, y := c.sealed.Load(), o.sealed.Load(); x != nil && y != nil && x.full() && y.full() {
		return false, nil // the same bytes have the same chunks
	}
	same, r := true, run{}
	var err error
	look := func() bool {
		if r.from < r.to {
			same, err = sameBytes(src, c, o, r.from, r.to-r.from)
		}
		return same && err == nil
	}
	sideBySide(c.layout.Load(), o.layout.Load(), func(off int64, x, y extent) bool {
		switch {
		case x.zeros() && y.zeros():
			if off == r.seen && x.n < dataUnit {
				r.seen += x.n
			}
		case x == y, x.inBase() && y.inBase() && x.pos == y.pos && x.base.equal(y.base):
		default:
			if off != r.seen || off-r.from >= runBytes {
				if !look() {
					return false
				}
				r.from = off
			}
			r.to, r.seen = off+x.n, off+x.n
		}
		return true
	})
	if same && err == nil {
		look()
	}
	if err != nil {
		return false, fmt.Errorf("compare files: %w", err)
	}
	return same, nil
}

// A run is what two files may have different bytes in, as they are compared: many small extents
// are not compared one by one.
type run struct {
	from, to int64
	seen     int64 // from to on both have zeros only
}

const runBytes = 1 << 20

// SurelyEqual reports whether two contents are known to be equal, holes and
// reservations too. It reads nothing.
func (c *Content) SurelyEqual(o *Content) bool {
	if c == o {
		return true
	}
	if c == nil || o == nil {
		return false
	}
	x, y := c.sealed.Load(), o.sealed.Load()
	return x != nil && y != nil && x.equal(y)
}

var compareBuffers = sync.Pool{New: func() any { return new([2][64 << 10]byte) }}

// sameBytes compares [off, off+n) of two files. Where both have no data it does not look.
func sameBytes(src *Source, a, b *Content, off, n int64) (bool, error) {
	for end := off + n; off < end; {
		from, to, err := eitherData(src, a.layout.Load(), b.layout.Load(), off, end)
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

// dataUnit is how far apart runs of data are at least that are compared one by one.
const dataUnit = 64 << 10

// eitherData returns where the first data of two files in [off, end) begins, and how far the
// one that has it goes on there; end if there is none. It looks at nothing behind end, so that
// a file of many extents, which are compared one by one, is not walked once for each.
func eitherData(src *Source, x, y *layout, off, end int64) (from, to int64, err error) {
	from, of := end, x
	for _, l := range []*layout{x, y} {
		at, err := l.dataIn(src, off, end)
		if err != nil {
			return 0, 0, err
		}
		if at < from {
			from, of = at, l
		}
	}
	if from == end {
		return end, end, nil
	}
	to, err = of.holeIn(src, from, end, dataUnit)
	return from, to, err
}

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

// A Piece is a stored run of bytes: a whole chunk, whose hash is its Key, or a part of
// the journal, whose Key is made of its position. Of two parts of the journal with the
// same Key, the longer contains the other.
type Piece struct {
	Key   cas.Hash
	Bytes int64
}

// Written calls fn for the pieces that c has and before, an earlier version, has not: what
// was written since. Holes and reservations are no pieces. What more extents than one take,
// until they are stored, is a piece without a key.
func (c *Content) Written(src *Source, before *Content, fn func(Piece)) error {
	if c == before {
		return nil
	}
	had, newest := make(map[cas.Hash]bool), int64(0)
	if err := before.pieces(src, func(key cas.Hash, n, pos int64) { had[key], newest = true, max(newest, pos+n) }); err != nil {
		return err
	}
	if more := c.Extents() - max(1, before.Extents()); more > 0 {
		fn(Piece{Bytes: ExtentBytes * int64(more)})
	}
	return c.pieces(src, func(key cas.Hash, n, pos int64) {
		if pos < 0 && !had[key] || pos >= newest { // the journal only grows
			fn(Piece{key, n})
		}
	})
}

// noPos stands for the position of a piece that is not in the journal.
const noPos = math.MinInt64

// pieces calls fn for each piece of the file, with its position in the journal. A chunk is
// stored whole, however little of it the file needs.
func (c *Content) pieces(src *Source, fn func(key cas.Hash, n, pos int64)) (err error) {
	if c == nil {
		return nil
	}
	c.Rebase()
	l := c.layout.Load()
	l.runs(0, l.size, func(_ int64, e extent) bool {
		switch {
		case e.inBase():
			err = e.base.pieces(src, e.pos, e.n, func(key cas.Hash, n int64) { fn(key, n, noPos) })
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

// pieces calls fn for the chunks of [off, off+n).
func (b *ChunkMap) pieces(src *Source, off, n int64, fn func(key cas.Hash, n int64)) error {
	c := b.cursor(src)
	c.once = true
	for !c.done() && c.off < off+n {
		step := c.next
		if c.end() > off && c.cur.data() {
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
