package content

import "encoding/binary"

// A Piece is a run of a file's bytes that is stored: a chunk, or a part of the
// journal. Two pieces with the same Key are the same bytes.
type Piece struct {
	Key   uint64
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
			if e := diffBases(src, x.base, y.base, x.pos, x.pos+x.n, func(at, n int64, _ bool) bool {
				err = y.base.pieces(src, at, n, fn)
				return err == nil
			}); e != nil {
				err = e
			}
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

func (e extent) pieces(src *Source, fn func(Piece)) error {
	switch {
	case e.inBase():
		return e.base.pieces(src, e.pos, e.n, fn)
	case e.inJournal():
		fn(Piece{uint64(e.pos), e.n})
	}
	return nil
}

// pieces calls fn for the chunks of [off, off+n).
func (b *ChunkMap) pieces(src *Source, off, n int64, fn func(Piece)) error {
	c := b.cursor(src)
	c.once = true
	for !c.done() && c.off < off+n {
		step := c.next
		if c.end() > off && c.cur.data() {
			if c.level > 0 {
				step = c.enter
			} else {
				fn(Piece{binary.LittleEndian.Uint64(c.cur.hash[:]), min(c.end(), off+n) - max(c.off, off)})
			}
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
