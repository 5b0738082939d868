package content

import (
	"bytes"
	"fmt"
	"sync"
)

// Equal reports whether two files have the same bytes. Holes and reservations count
// as zeros. It reads only what could be different for all that is known without
// reading.
func (c *Content) Equal(src *Source, o *Content) (bool, error) {
	if c == o {
		return true, nil
	}
	if c.Size() != o.Size() {
		return false, nil
	}
	if c.Size() == 0 {
		return true, nil
	}
	same := true
	var err error
	differ := func(off, n int64) bool {
		same, err = sameBytes(src, c, o, off, n)
		return same && err == nil
	}
	sideBySide(c.layout.Load(), o.layout.Load(), func(off int64, x, y extent) bool {
		switch {
		case x == y || x.zeros() && y.zeros():
			return true
		case x.inBase() && y.inBase() && x.pos == y.pos:
			if x.base.Equal(y.base) {
				return true
			}
			more := true
			if e := diffBases(src, x.base, y.base, x.pos, x.pos+x.n, func(at, n int64, surely bool) bool {
				if surely {
					same = false
				}
				more = !surely && differ(off+at-x.pos, n)
				return more
			}); e != nil {
				err = e
				return false
			}
			return more
		}
		return differ(off, x.n)
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

// diffBases calls fn for the parts of [off, end) that two sealed files may have
// different, or surely have, until it answers false. Lists with the same hash are not
// loaded.
func diffBases(src *Source, a, b *ChunkMap, off, end int64, fn func(off, n int64, surely bool) bool) error {
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
				whole := at == ca.off && at == cb.off && to == ca.end() && to == cb.end()
				if !fn(at, to-at, whole && ca.cur.differs(&cb.cur)) {
					return nil
				}
			}
			at = to
		}
		if err != nil {
			return err
		}
	}
	if at < end {
		fn(at, end-at, false)
	}
	return nil
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
