package content

import (
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// damagedHash is listed as the hash of chunks for bytes that were damaged before they could be sealed. No object
// has this hash. So reading these bytes always fails, while the rest of the file can be read, and verify reports
// the file.
var damagedHash = func() (h cas.Hash) {
	for i := range h {
		h[i] = 0xff
	}
	return h
}()

// A damagedPart is a part of a file that cannot be read. If the part is exactly one stored
// chunk, hash is the hash of the chunk, else damagedHash.
type damagedPart struct {
	span
	hash cas.Hash
}

// isLost reports whether err means that the stored bytes are lost. It is false for an error that may
// be temporary, such as a disk or a remote that does not answer.
func isLost(err error) bool {
	var l interface{ Lost() bool } // implemented by errors of a Log
	if errors.As(err, &l) {
		return l.Lost()
	}
	var d *cas.Damage
	return errors.As(err, &d) || errors.Is(err, cas.ErrNotFound) || errors.Is(err, wire.ErrMalformed)
}

// ignoreLost returns nil if err means that stored bytes are lost, else err.
func ignoreLost(err error) error {
	if isLost(err) {
		return nil
	}
	return err
}

// readPastDamage fills b with the bytes of the file at off. Parts that cannot be read become zeros and
// are recorded in s.damaged.
func (s *fileSealer) readPastDamage(b []byte, off int64) error {
	for end := off + int64(len(b)); off < end; {
		if err := s.ctx.Err(); err != nil {
			return err
		}

		part, err := s.damageUnitAt(off)
		if err != nil {
			return err
		}

		n := min(part.end, end) - off
		if _, err := s.c.ReadAt(s.z.Src, b[:n], off); err != nil {
			// A stored chunk need not be read again, because its hash is known: after any error it is listed by
			// this hash. If s has already cut a part of the chunk, that is not possible.
			if (part.hash == damagedHash || part.off < s.off) && !isLost(err) {
				return err
			}
			clear(b[:n])
			s.damaged = append(s.damaged, part)
		}

		b, off = b[n:], off+n
	}
	return nil
}

// damageUnitAt returns the part of the file that counts as damaged if the byte at off cannot be read: the
// bytes of one chunk, or at most minChunkSize bytes of the journal. It begins before off only if it is
// a whole chunk.
func (s *fileSealer) damageUnitAt(off int64) (damagedPart, error) {
	e := s.l.extentAt(off)
	part := damagedPart{span{off, off + e.n}, damagedHash}
	if !e.inBase() {
		part.end = min(part.end, off-off%minChunkSize+minChunkSize)
		return part, nil
	}

	c := e.base.cursor(s.z.Src)
	err := c.seek(e.pos)
	if err != nil && !isLost(err) {
		return part, err
	}

	part.end = min(part.end, off+c.end()-e.pos)
	if err != nil { // the cursor c is at a damaged list: all chunks of the list are lost
		return part, nil
	}

	// Check whether the whole chunk is in the file, at its offset in the base.
	begin := off - (e.pos - c.off)
	if begin < 0 {
		return part, nil
	}
	if r := s.l.extentAt(begin); r.base == e.base && r.pos == c.off && r.n >= c.cur.n {
		part.off, part.hash = begin, c.cur.hash
	}

	return part, nil
}

// firstDamagedIn returns the first damaged part in [p, p+n).
func (s *fileSealer) firstDamagedIn(p, n int64) (part damagedPart, ok bool) {
	for _, d := range s.damaged {
		if d.off < p+n && p < d.end {
			return d, true
		}
	}
	return part, false
}

// addDamaged adds the damaged part at s.off to the list: a stored chunk under its own hash, other bytes as chunks
// with damagedHash.
func (s *fileSealer) addDamaged(d damagedPart) error {
	if d.off == s.off && d.hash != damagedHash {
		s.off = d.end
		return s.list.add(item{n: d.end - d.off, hash: d.hash})
	}

	if s.z.OnDamage != nil {
		s.z.OnDamage(d.end - s.off)
	}

	for s.off < d.end {
		n := min(maxChunkSize, d.end-s.off)
		if err := s.list.add(item{n: n, hash: damagedHash}); err != nil {
			return err
		}

		s.off += n
	}

	return nil
}
