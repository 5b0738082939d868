package content

import (
	"bytes"
	"fmt"
	"sync"
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
