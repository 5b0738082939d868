package content

import (
	"iter"
)

// layout maps the offsets of a Content to the places of its bytes. A byte is in the extent that contains its
// offset. If no extent does, the byte is at the same offset of base if the offset is below baseLen, else in a
// hole.
//
// Extents end at size at most. baseLen is at most size, and at most the size of base.
type layout struct {
	size    int64
	alloc   int64     // bytes that are data or unwritten
	base    *ChunkMap // nil if baseLen is 0
	baseLen int64
	ext     extents
}

// baseLayout returns the layout of a sealed file.
func baseLayout(b *ChunkMap) *layout {
	l := &layout{size: b.n, alloc: b.n - b.holeBytes}
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

// unchangedBase returns the base if the file equals it and has no extents, else nil.
func (l *layout) unchangedBase() *ChunkMap {
	if l.base != nil && l.ext.count() == 0 && l.baseLen == l.size && l.base.n == l.size {
		return l.base
	}
	return nil
}

// extentAt returns the rest of a run: the part that begins at off, which is less than l.size. A run is an extent, or a
// range between two extents. Such a range has the bytes of the base at equal offsets, or it is a hole.
func (l *layout) extentAt(off int64) extent {
	at, e, ok := l.ext.floor(off)
	if ok && off < at+e.n {
		return e.sub(off-at, at+e.n-off)
	}

	end := l.size
	l.ext.eachFrom(off, func(at int64, _ extent) bool {
		end = at
		return false
	})

	return l.runWithoutExtents(off, end)
}

// runWithoutExtents returns the run at off, in [off, end) without extents.
func (l *layout) runWithoutExtents(off, end int64) extent {
	if off < l.baseLen {
		return extent{n: min(end, l.baseLen) - off, pos: off, base: l.base}
	}
	return extent{n: end - off, pos: posHole}
}

// eachRun calls fn for the runs of [off, end), in order and without gaps, until fn returns false. Runs
// are cut off at off, end and size.
func (l *layout) eachRun(off, end int64, fn func(off int64, e extent) bool) {
	end = min(end, l.size)
	callForGaps := func(limit int64) bool { // calls fn for the runs between extents, up to limit
		for off < limit {
			e := l.runWithoutExtents(off, limit)
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
	l.ext.eachFrom(off, func(at int64, e extent) bool {
		if more = callForGaps(min(at, end)); !more || at >= end {
			return false
		}

		e = e.sub(off-at, min(at+e.n, end)-off)
		more = fn(off, e)
		off += e.n

		return more
	})
	if more {
		callForGaps(end)
	}
}

// eachRunPair calls fn for the parts of two layouts that are in one run of each layout, up to the end of the
// shorter layout, until fn returns false.
func eachRunPair(a, b *layout, fn func(off int64, x, y extent) bool) {
	next, stop := iter.Pull2(func(yield func(int64, extent) bool) { b.eachRun(0, b.size, yield) })
	defer stop()

	at, y, _ := next()
	a.eachRun(0, b.size, func(off int64, x extent) bool {
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

// eachKind calls fn for the data, holes and reservations of [off, end), in order, until fn returns false. The
// items have no hash. An item is of one kind. With allowLists, an item may also be a list of chunks of several kinds
// that is completely in [off, end). Only lists of several kinds are loaded.
func (l *layout) eachKind(src *Source, off, end int64, allowLists bool, fn func(off int64, it item) bool) (err error) {
	l.eachRun(off, end, func(off int64, e extent) (more bool) {
		if !e.inBase() {
			return fn(off, e.asItem())
		}
		more = true
		err = e.base.eachKind(src, e.pos, e.pos+e.n, allowLists, func(at int64, it item) bool {
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
	err = l.eachKind(src, off, end, true, func(_ int64, it item) bool {
		n += it.n - it.holeBytes
		return true
	})

	return n, err
}

// replace replaces [off, off+e.n) by e, which is not in a ChunkMap. It extends the file if e ends after the end of
// the file. After an error l is unchanged.
func (l *layout) replace(src *Source, off int64, e extent) error {
	replaced, err := l.allocated(src, off, off+e.n)
	if err != nil {
		return err
	}

	l.set(off, e)
	l.alloc -= replaced
	if e.pos != posHole {
		l.alloc += e.n
	}

	return nil
}

// set does the work of replace for any extent, but the caller updates alloc.
func (l *layout) set(off int64, e extent) {
	end := off + e.n
	l.ext.removeRange(off, end)
	l.size = max(l.size, end)
	switch {
	case e.pos == posHole && off >= l.baseLen:
		// After the base, a part without extents is a hole.
	case e.pos == posHole && end >= l.baseLen:
		// A shorter base makes this part a hole.
		l.reduceBaseLen(off)
	case e.inBase() && e.base == l.base && e.pos == off && end <= l.baseLen:
		// Without extents, this part is in the base.
	default:
		l.ext.addJoined(off, e)
	}
}

// reduceBaseLen reduces baseLen to n bytes.
func (l *layout) reduceBaseLen(n int64) {
	if l.baseLen = min(l.baseLen, n); l.baseLen == 0 {
		l.base = nil
	}
}

// truncate sets the size of the file to size bytes. After an error l is unchanged.
func (l *layout) truncate(src *Source, size int64) error {
	if size >= l.size {
		l.size = size
		return nil
	}

	removed, err := l.allocated(src, size, l.size)
	if err != nil {
		return err
	}

	l.ext.removeRange(size, l.size)
	l.alloc -= removed
	l.size = size
	l.reduceBaseLen(size)

	return nil
}

// Rebase replaces the parts that c shares with the version before. c then reads them from the place where that
// version reads them now: from chunks, if that version or an older one was sealed. Then only the parts that c
// does not share need the journal, and the journal can drop older bytes. The bytes of c do not change.
//
// If c is frozen the caller needs no lock. Rebase reads no object.
func (c *Content) Rebase() {
	if c == nil {
		return
	}
	a := c.link.Load()
	if a == nil {
		return
	}

	a.prev.Rebase()

	var after *ancestry // nil if prev is sealed: it does not change any more
	newer := a.prev.layout.Load()
	if b := a.prev.sealedMap.Load(); b != nil {
		newer = baseLayout(b)
	} else if after = (&ancestry{prev: a.prev, prevLayout: newer}); newer == a.prevLayout {
		return
	}

	old := c.layout.Load()
	// If a sealer of c has replaced the layout in the meantime, this changes neither the layout nor the link.
	if c.layout.CompareAndSwap(old, old.rebased(a.prevLayout, newer)) {
		c.link.CompareAndSwap(a, after)
	}
}

// rebased returns a layout of the same bytes as l. newer must be a layout of the same bytes as older.
//
// l and older have the same run at an offset if both have a hole there, or both have a reservation, or both have the
// same place in the journal or in a ChunkMap. Then l, older and newer have equal bytes there, and the result
// has the run of newer. Elsewhere the result has the run of l. This is correct for any l and older. The result is
// small because l began as a copy of older and differs only where it was changed later.
//
// An extent of older that l does not have was replaced by another extent, or removed by a truncation. If l was
// extended after the truncation, it has a hole there and older does not. So the hole is set in the result, and
// hides the bytes of newer.
func (l *layout) rebased(older, newer *layout) *layout {
	n := &layout{size: l.size, alloc: l.alloc, base: newer.base, baseLen: newer.baseLen}
	n.reduceBaseLen(l.size)
	// Copy extent by extent: a clone of the tree would need the caller's lock.
	newer.ext.eachFrom(0, func(off int64, e extent) bool {
		if off < l.size {
			n.ext.add(off, e.sub(0, min(e.n, l.size-off)))
		}
		return off < l.size
	})

	common := int64(0) // end of the shorter layout
	eachRunPair(l, older, func(off int64, x, y extent) bool {
		if x != y {
			n.set(off, x)
		}

		common = off + x.n
		return true
	})

	l.eachRun(common, l.size, func(off int64, e extent) bool {
		n.set(off, e)
		return true
	})

	return n
}
