package tree

import (
	"errors"

	"github.com/amberfs/amberfs/cas"
)

// lostHash stands in a sealed file for bytes that were damaged before they could
// be sealed. No object has it, so reading them is an error for ever, the rest of
// the file can be read, and Affected names the file.
var lostHash = func() (h cas.Hash) {
	for i := range h {
		h[i] = 0xff
	}
	return h
}()

const lostBlock = 4 << 10 // bytes that are lost together, at least

// gone says that err is no failure of the moment: what was stored is not there
// any more. A source tells so with a method Lost; that an object is missing is
// believed only of a store that a repair has been through.
func (z *Sealer) gone(err error) bool {
	var l interface{ Lost() bool }
	return errors.As(err, &l) && l.Lost() || z.Lossy && errors.Is(err, cas.ErrNotFound)
}

// readAround reads what can be read of b, and notes what is lost.
func (s *contentSealer) readAround(b []byte, off int64) error {
	lost := int64(0)
	defer func() {
		if lost > 0 && s.z.OnLost != nil {
			s.z.OnLost(lost)
		}
	}()
	for len(b) > 0 {
		n := min(int64(len(b)), lostBlock-off%lostBlock)
		_, err := s.c.ReadAt(s.z.Src, b[:n], off)
		switch {
		case err == nil:
		case !s.z.gone(err):
			return err
		default:
			clear(b[:n])
			s.lose(off, off+n)
			lost += n
		}
		b, off = b[n:], off+n
	}
	return nil
}

// lose notes that [from, to) is lost.
func (s *contentSealer) lose(from, to int64) {
	if k := len(s.lost); k > 0 && s.lost[k-1][1] == from {
		s.lost[k-1][1] = to
		return
	}
	s.lost = append(s.lost, [2]int64{from, to})
}

// lostIn returns the first lost part of [p, p+n).
func (s *contentSealer) lostIn(p, n int64) (from, to int64, ok bool) {
	for _, l := range s.lost {
		if l[0] < p+n && p < l[1] {
			return max(l[0], p), min(l[1], p+n), true
		}
	}
	return 0, 0, false
}
