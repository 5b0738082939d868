package content

import (
	"iter"
)

// layout is how a Content finds its bytes. An offset below size is looked up in
// the overlay of extents first; where that has nothing, it is that offset of
// base if below baseLen, else a hole.
//
// Extents lie within size, and baseLen is at most size and at most its size.
type layout struct {
	size    int64
	alloc   int64     // bytes that are data or unwritten
	base    *ChunkMap // nil if baseLen is 0
	baseLen int64
	ext     extents
}

func baseLayout(b *ChunkMap) *layout {
	l := &layout{size: b.n, alloc: b.n - b.holes}
	if b.n > 0 {
		l.base, l.baseLen = b, b.n
	}
	return l
}

// clone returns a copy that can be changed independently.
func (l *layout) clone() *layout {
	c := *l
	c.ext = l.ext.clone()
	return &c
}

// plain returns the ChunkMap if it is the whole layout, else nil.
func (l *layout) plain() *ChunkMap {
	if l.base != nil && l.ext.count() == 0 && l.baseLen == l.size && l.base.n == l.size {
		return l.base
	}
	return nil
}

// at returns the run of the same kind and place that holds offset off, which is
// below size: the part of it from off on. What base holds comes as an extent in
// base at that very offset.
func (l *layout) at(off int64) extent {
	at, e, ok := l.ext.floor(off)
	if ok && off < at+e.n {
		return e.sub(off-at, at+e.n-off)
	}
	end := l.size
	l.ext.from(off, func(at int64, _ extent) bool {
		end = at
		return false
	})
	return l.gap(off, end)
}

// gap returns the run at off, where no extent is before end.
func (l *layout) gap(off, end int64) extent {
	if off < l.baseLen {
		return extent{n: min(end, l.baseLen) - off, pos: off, base: l.base}
	}
	return extent{n: end - off, pos: posHole}
}

// runs calls fn for the runs of [off, end), clipped to it and to size, in order
// and without gaps, until it returns false.
func (l *layout) runs(off, end int64, fn func(off int64, e extent) bool) {
	end = min(end, l.size)
	gaps := func(upto int64) bool {
		for off < upto {
			e := l.gap(off, upto)
			if !fn(off, e) {
				return false
			}
			off += e.n
		}
		return true
	}
	if off >= end {
		return
	}
	more := true
	l.ext.from(off, func(at int64, e extent) bool {
		if more = gaps(min(at, end)); !more || at >= end {
			return false
		}
		e = e.sub(off-at, min(at+e.n, end)-off)
		more = fn(off, e)
		off += e.n
		return more
	})
	if more {
		gaps(end)
	}
}

// sideBySide calls fn for the pieces of two layouts that are in one run of each,
// up to the end of the shorter one, until it returns false.
func sideBySide(a, b *layout, fn func(off int64, x, y extent) bool) {
	next, stop := iter.Pull2(func(yield func(int64, extent) bool) { b.runs(0, b.size, yield) })
	defer stop()
	at, y, _ := next()
	a.runs(0, b.size, func(off int64, x extent) bool {
		for x.n > 0 {
			if off == at+y.n {
				at, y, _ = next()
			}
			n := min(x.n, at+y.n-off)
			if !fn(off, x.sub(0, n), y.sub(off-at, n)) {
				return false
			}
			x, off = x.sub(n, x.n-n), off+n
		}
		return true
	})
}

// kinds calls fn for the data, holes and reservations of [off, end), in order, until it
// returns false. An item is of one kind, or, with lists, may be a list of chunks that
// lies within. It has no hash. Other lists of one kind are not loaded.
func (l *layout) kinds(src *Source, off, end int64, lists bool, fn func(off int64, it item) bool) (err error) {
	l.runs(off, end, func(off int64, e extent) (more bool) {
		if !e.inBase() {
			return fn(off, e.kind())
		}
		more = true
		err = e.base.kinds(src, e.pos, e.pos+e.n, lists, func(at int64, it item) bool {
			more = fn(off+at-e.pos, it)
			return more
		})
		return more && err == nil
	})
	return err
}

// allocated counts the bytes of [off, end) that are data or unwritten.
func (l *layout) allocated(src *Source, off, end int64) (n int64, err error) {
	if off <= 0 && end >= l.size {
		return l.alloc, nil
	}
	err = l.kinds(src, off, end, true, func(_ int64, it item) bool {
		n += it.n - it.holes
		return true
	})
	return n, err
}

// place makes [off, off+e.n) zeros or bytes of the journal, whatever was there,
// and grows the file if need be. It fails before it changes anything.
func (l *layout) place(src *Source, off int64, e extent) error {
	gone, err := l.allocated(src, off, off+e.n)
	if err != nil {
		return err
	}
	l.set(off, e)
	l.alloc -= gone
	if e.pos != posHole {
		l.alloc += e.n
	}
	return nil
}

// set is place for any extent, but leaves counting what is allocated to the
// caller.
func (l *layout) set(off int64, e extent) {
	end := off + e.n
	l.ext.cut(off, end)
	l.size = max(l.size, end)
	switch {
	case e.pos == posHole && off >= l.baseLen:
		// A gap behind the base is a hole already.
	case e.pos == posHole && end >= l.baseLen:
		// So is one up to its end, once the base is taken to end sooner.
		l.setBaseLen(off)
	case e.inBase() && e.base == l.base && e.pos == off && end <= l.baseLen:
		// What shines through needs no extent.
	default:
		l.ext.put(off, e)
	}
}

func (l *layout) setBaseLen(n int64) {
	if l.baseLen = min(l.baseLen, n); l.baseLen == 0 {
		l.base = nil
	}
}

// truncate makes the file size bytes long. It fails before it changes anything.
func (l *layout) truncate(src *Source, size int64) error {
	if size >= l.size {
		l.size = size
		return nil
	}
	gone, err := l.allocated(src, size, l.size)
	if err != nil {
		return err
	}
	l.ext.cut(size, l.size)
	l.alloc -= gone
	l.size = size
	l.setBaseLen(size)
	return nil
}

// Rebase has c read what it has in common with the version before from where that reads
// it by now: from chunks, once that version, or one before it, is sealed. Extents remain
// only for what is c's own, so the journal can be dropped up to what was written since.
// The bytes of c stay the same.
//
// With a frozen c it needs no lock. Nothing is loaded.
func (c *Content) Rebase() {
	if c == nil {
		return
	}
	a := c.link.Load()
	if a == nil {
		return
	}
	a.prev.Rebase()
	var after *ancestry
	now := a.prev.layout.Load()
	if b := a.prev.sealed.Load(); b != nil {
		now = baseLayout(b)
	} else if after = (&ancestry{prev: a.prev, from: now}); now == a.from {
		return
	}
	old := c.layout.Load()
	// Neither exchange takes place if a sealer of c was faster.
	if c.layout.CompareAndSwap(old, old.rebased(a.from, now)) {
		c.link.CompareAndSwap(a, after)
	}
}

// rebased returns a layout that says what l says, where now says what from says.
//
// Where l and from have the same run (the same place in the journal or in a ChunkMap
// for the same offset, or a hole or a reservation in both), the two files have
// the same there, and so has now: its runs are taken. Everything else stays as it is in
// l. That is right whatever l and from are. It is small since l began as a copy of from:
// only what was changed since differs. An extent of from is gone from l only where
// another one has taken its place, and where truncation cut it off; what l, grown
// again, has behind such a cut is a hole that from has not, so that the hole is set and
// now does not shine through.
func (l *layout) rebased(from, now *layout) *layout {
	n := &layout{size: l.size, alloc: l.alloc, base: now.base, baseLen: now.baseLen}
	n.setBaseLen(l.size)
	// Not a copy of the tree, which would need the lock.
	now.ext.from(0, func(off int64, e extent) bool {
		if off < l.size {
			n.ext.add(off, e.sub(0, min(e.n, l.size-off)))
		}
		return off < l.size
	})
	common := int64(0)
	sideBySide(l, from, func(off int64, x, y extent) bool {
		if x != y {
			n.set(off, x)
		}
		common = off + x.n
		return true
	})
	l.runs(common, l.size, func(off int64, e extent) bool {
		n.set(off, e)
		return true
	})
	return n
}
