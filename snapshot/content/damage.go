package content

import (
	"errors"

	"github.com/amberfs/amberfs/cas"
)

// damagedHash stands in a sealed file for bytes that were damaged before they could
// be sealed. No object has it, so reading them is an error for ever, the rest of
// the file can be read, and verify names the file.
var damagedHash = func() (h cas.Hash) {
	for i := range h {
		h[i] = 0xff
	}
	return h
}()

// damageBlock is how many bytes are given up together, at least.
const damageBlock = 4 << 10

// isGone reports whether err means that what was stored is not there any more, as
// opposed to a disk that fails at the moment. A log tells so with a method Lost; of
// the store it is believed only after a repair.
func (z *Sealer) isGone(err error) bool {
	var l interface{ Lost() bool }
	return errors.As(err, &l) && l.Lost() || z.Incomplete && errors.Is(err, cas.ErrNotFound)
}

// readAround reads what can be read of b, and notes which blocks cannot.
func (s *fileSealer) readAround(b []byte, off int64) error {
	for len(b) > 0 {
		n := min(int64(len(b)), damageBlock-off%damageBlock)
		if _, err := s.c.ReadAt(s.z.Src, b[:n], off); err != nil {
			if !s.z.isGone(err) {
				return err
			}
			clear(b[:n])
			s.damaged = append(s.damaged, span{off, off + n})
			if s.z.OnDamage != nil {
				s.z.OnDamage(n)
			}
		}
		b, off = b[n:], off+n
	}
	return nil
}

// damagedIn returns the first damaged part of [p, p+n).
func (s *fileSealer) damagedIn(p, n int64) (part span, ok bool) {
	for _, d := range s.damaged {
		if d.off < p+n && p < d.end {
			return span{max(d.off, p), min(d.end, p+n)}, true
		}
	}
	return span{}, false
}
