package content

import (
	"bytes"
	"encoding/binary"
	"fmt"
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
	if x, y := c.sealed.Load(), o.sealed.Load(); x != nil && y != nil && x.top().full() && y.top().full() {
		return false, nil // the same bytes have the same chunks
	}
	same := true
	var err error
	sideBySide(c.layout.Load(), o.layout.Load(), func(off int64, x, y extent) bool {
		switch {
		case x == y || x.zeros() && y.zeros():
			return true
		case x.inBase() && y.inBase() && x.pos == y.pos && x.base.Equal(y.base):
			return true
		}
		same, err = sameBytes(src, c, o, off, x.n)
		return same && err == nil
	})
	if err != nil {
		return false, fmt.Errorf("compare files: %w", err)
	}
	return same, nil
}

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
	return x != nil && y != nil && x.Equal(y)
}

var compareBuffers = sync.Pool{New: func() any { return new([2][64 << 10]byte) }}

func sameBytes(src *Source, a, b *Content, off, n int64) (bool, error) {
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

// Written calls fn for the pieces that c has and before has not at the same offset:
// what was written since. Holes and reservations are no pieces.
func (c *Content) Written(src *Source, before *Content, fn func(Piece)) error {
	if c == nil || c == before {
		return nil
	}
	was := &layout{}
	if before != nil {
		before.Rebase()
		was = before.layout.Load()
	}
	c.Rebase()
	l := c.layout.Load()
	var err error
	seen := int64(0)
	sideBySide(l, was, func(off int64, y, x extent) bool {
		seen = off + y.n
		switch {
		case x == y:
		case x.inBase() && y.inBase() && x.pos == y.pos:
			err = diffBases(src, x.base, y.base, x.pos, x.pos+x.n, func(at, n int64) error {
				return y.base.pieces(src, at, n, fn)
			})
		default:
			err = y.pieces(src, fn)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	l.runs(seen, l.size, func(_ int64, e extent) bool {
		err = e.pieces(src, fn)
		return err == nil
	})
	return err
}

// diffBases calls fn for the parts of [off, end) that two sealed files may have
// different. Lists with the same hash are not loaded.
func diffBases(src *Source, a, b *ChunkMap, off, end int64, fn func(off, n int64) error) error {
	ca, cb := a.cursor(src), b.cursor(src)
	ca.once, cb.once = true, true
	at := off
	for at < end && !ca.done() && !cb.done() {
		// The cursor that is behind, or on the bigger item, goes on first.
		var err error
		switch {
		case ca.end() <= at:
			err = ca.next()
		case cb.end() <= at:
			err = cb.next()
		case ca.off == cb.off && ca.cur == cb.cur && ca.level == cb.level:
			at = ca.end()
		case ca.level > 0 && ca.level >= cb.level:
			err = ca.enter()
		case cb.level > 0:
			err = cb.enter()
		default:
			to := min(ca.end(), cb.end(), end)
			if ca.cur.data() || cb.cur.data() {
				err = fn(at, to-at)
			}
			at = to
		}
		if err != nil {
			return err
		}
	}
	if at < end {
		return fn(at, end-at)
	}
	return nil
}

func (e extent) pieces(src *Source, fn func(Piece)) error {
	switch {
	case e.inBase():
		return e.base.pieces(src, e.pos, e.n, fn)
	case e.inJournal():
		var key cas.Hash
		binary.LittleEndian.PutUint64(key[:], uint64(e.pos))
		key[len(key)-1] = 1
		fn(Piece{key, e.n})
	}
	return nil
}

// pieces calls fn for the chunks of [off, off+n): each is stored whole, however little
// of it the file needs.
func (b *ChunkMap) pieces(src *Source, off, n int64, fn func(Piece)) error {
	c := b.cursor(src)
	c.once = true
	for !c.done() && c.off < off+n {
		step := c.next
		if c.end() > off && c.cur.data() {
			if c.level > 0 {
				step = c.enter
			} else {
				fn(Piece{c.cur.hash, c.cur.n})
			}
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
