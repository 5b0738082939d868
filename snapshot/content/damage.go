package content

import (
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// damagedHash stands in a sealed file for bytes that were damaged before they could
// be sealed. No object has it, so reading them is an error forever, the rest of
// the file can be read, and verify names the file.
var damagedHash = func() (h cas.Hash) {
	for i := range h {
		h[i] = 0xff
	}
	return h
}()

// A damagedPart is a part of a file that cannot be read. Its hash is that of the
// stored chunk, if the part is exactly one, else damagedHash.
type damagedPart struct {
	span
	hash cas.Hash
}

// isGone reports whether err means that the stored bytes are lost, as opposed to a
// disk or a remote that does not answer at the moment.
func isGone(err error) bool {
	var l interface{ Lost() bool } // an error of a log
	if errors.As(err, &l) {
		return l.Lost()
	}
	var d *cas.Damage
	return errors.As(err, &d) || errors.Is(err, cas.ErrNotFound) || errors.Is(err, wire.ErrMalformed)
}

// unlessGone returns err, nil if it means that stored bytes are lost.
func unlessGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// readAround reads what can be read of b, and notes which parts cannot.
func (s *fileSealer) readAround(b []byte, off int64) error {
	for end := off + int64(len(b)); off < end; {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		part, err := s.partAt(off)
		if err != nil {
			return err
		}
		n := min(part.end, end) - off
		if _, err := s.c.ReadAt(s.z.Src, b[:n], off); err != nil {
			// A whole chunk is as good as its hash, whatever keeps it from being read,
			// unless a part of it was read and cut off.
			if (part.hash == damagedHash || part.off < s.p) && !isGone(err) {
				return err
			}
			clear(b[:n])
			s.damaged = append(s.damaged, part)
		}
		b, off = b[n:], off+n
	}
	return nil
}

// partAt returns the part of the file at off that is lost together: what lies in one
// chunk, or at most minChunk bytes of the journal. It begins before off only if it is a
// whole chunk.
func (s *fileSealer) partAt(off int64) (damagedPart, error) {
	e := s.l.at(off)
	part := damagedPart{span{off, off + e.n}, damagedHash}
	if !e.inBase() {
		part.end = min(part.end, off-off%minChunk+minChunk)
		return part, nil
	}
	c := e.base.cursor(s.z.Src)
	err := c.seek(e.pos)
	if err != nil && !isGone(err) {
		return part, err
	}
	// If a list of chunks is damaged, all that it lists is.
	part.end = min(part.end, off+c.end()-e.pos)
	if begin := off - (e.pos - c.off); err == nil && begin >= 0 {
		if r := s.l.at(begin); r.base == e.base && r.pos == c.off && r.n >= c.cur.n {
			part.off, part.hash = begin, c.cur.hash
		}
	}
	return part, nil
}

// damagedIn returns the first damaged part of [p, p+n).
func (s *fileSealer) damagedIn(p, n int64) (part damagedPart, ok bool) {
	for _, d := range s.damaged {
		if d.off < p+n && p < d.end {
			return d, true
		}
	}
	return part, false
}

// addDamaged adds the damaged part at p.
func (s *fileSealer) addDamaged(d damagedPart) error {
	if d.off == s.p && d.hash != damagedHash {
		s.p = d.end
		return s.list.add(item{n: d.end - d.off, hash: d.hash})
	}
	if s.z.OnDamage != nil {
		s.z.OnDamage(d.end - s.p)
	}
	for s.p < d.end {
		n := min(maxChunk, d.end-s.p)
		if err := s.list.add(item{n: n, hash: damagedHash}); err != nil {
			return err
		}
		s.p += n
	}
	return nil
}
