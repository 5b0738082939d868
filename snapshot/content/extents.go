package content

import "github.com/tidwall/btree"

// Values of extent.pos for an extent that is neither in the journal nor in a ChunkMap.
const (
	posHole      = -1 // reads as zeros, no blocks
	posUnwritten = -2 // reads as zeros, blocks reserved
)

// An extent is the place of a run of bytes of a file: in the journal from position pos on, in a ChunkMap from
// offset pos on, or, if pos is negative, in a hole or reservation.
type extent struct {
	n          int64
	pos        int64
	payloadPos int64 // in the journal: where the payload of the record begins
	base       *ChunkMap
}

func (e extent) inJournal() bool  { return e.base == nil && e.pos >= 0 }
func (e extent) inBase() bool     { return e.base != nil }
func (e extent) readsZeros() bool { return e.pos < 0 }

// asItem returns e as an item without a hash. e must not be in a ChunkMap.
func (e extent) asItem() item {
	it := item{n: e.n}
	switch e.pos {
	case posHole:
		it.holeBytes = e.n
	case posUnwritten:
		it.unwrittenBytes = e.n
	}

	return it
}

// sub returns the part of e that begins after skip bytes and has n bytes.
func (e extent) sub(skip, n int64) extent {
	e.n = n
	if e.pos >= 0 {
		e.pos += skip
	}
	return e
}

// follows reports whether one extent can replace prev and e, which follows prev in the file: the place of e must
// follow the place of prev, too.
func (e extent) follows(prev extent) bool {
	if e.base != prev.base || e.payloadPos != prev.payloadPos {
		return false
	}
	if e.pos < 0 {
		return e.pos == prev.pos
	}
	return prev.pos >= 0 && e.pos == prev.pos+prev.n
}

// extents maps offsets of a file to extents that do not overlap. Most files have at most
// one extent, which is inline. More extents are in a B-tree that is copied in O(1).
// Several goroutines may read and clone at the same time, as long as no goroutine changes.
type extents struct {
	tree      *btree.Map[int64, extent]
	singleOff int64  // offset of single
	single    extent // the single extent of a file without a tree; empty if the file has none
}

func (x *extents) clone() extents {
	c := *x
	if x.tree != nil {
		c.tree = x.tree.Copy()
	}
	return c
}

func (x *extents) count() int {
	switch {
	case x.tree != nil:
		return x.tree.Len()
	case x.single.n > 0:
		return 1
	}
	return 0
}

// last returns the extent that ends last.
func (x *extents) last() (off int64, e extent, ok bool) {
	if x.tree != nil {
		return x.tree.Max()
	}
	return x.singleOff, x.single, x.single.n > 0
}

// nthLast returns the offset at which the n-th last extent begins, 0 if there are fewer than n.
func (x *extents) nthLast(n int) (at int64) {
	if x.count() < n || x.tree == nil {
		return 0
	}
	at, _, _ = x.tree.GetAt(x.tree.Len() - n)
	return at
}

// floor returns the last extent that begins at off or before.
func (x *extents) floor(off int64) (at int64, e extent, ok bool) {
	if x.tree == nil {
		return x.singleOff, x.single, x.single.n > 0 && x.singleOff <= off
	}
	x.tree.Descend(off, func(k int64, v extent) bool {
		at, e, ok = k, v, true
		return false
	})

	return at, e, ok
}

// eachFrom calls fn for the extents that end after off, in order, until fn returns
// false.
func (x *extents) eachFrom(off int64, fn func(at int64, e extent) bool) {
	if x.tree == nil {
		if x.single.n > 0 && x.singleOff+x.single.n > off {
			fn(x.singleOff, x.single)
		}
		return
	}

	at, e, ok := x.floor(off)
	if ok && at+e.n > off && !fn(at, e) {
		return
	}
	x.tree.Ascend(off, func(k int64, v extent) bool {
		if ok && k == at {
			return true // fn was called for this extent above
		}
		return fn(k, v)
	})
}

// removeRange removes all extents in [off, end). Extents that extend beyond this range are shortened or split.
func (x *extents) removeRange(off, end int64) {
	lastAt, last, ok := x.last()
	if !ok || off >= end || lastAt+last.n <= off {
		return
	}

	if off <= 0 && lastAt+last.n <= end {
		*x = extents{}
		return
	}

	// Find the extents to remove, and the parts of them before off and after end.
	var space [8]int64
	removed := space[:0]
	var headAt, tailAt int64
	var head, tail extent
	x.eachFrom(off, func(at int64, e extent) bool {
		if at >= end {
			return false
		}

		if at < off {
			headAt, head = at, e.sub(0, off-at)
		} else {
			removed = append(removed, at)
		}

		if at+e.n > end {
			tailAt, tail = end, e.sub(end-at, at+e.n-end)
		}

		return true
	})

	for _, at := range removed {
		x.remove(at)
	}

	if head.n > 0 {
		x.remove(headAt)
		x.add(headAt, head)
	}

	if tail.n > 0 {
		x.add(tailAt, tail)
	}

	if x.tree != nil && x.tree.Len() <= 1 {
		at, e, _ := x.tree.Max()
		*x = extents{singleOff: at, single: e}
	}
}

// add adds e at off, where no extent is.
func (x *extents) add(off int64, e extent) {
	if x.tree == nil {
		if x.single.n == 0 {
			x.singleOff, x.single = off, e
			return
		}

		t := btree.NewMap[int64, extent](16)
		t.Set(x.singleOff, x.single)
		*x = extents{tree: t}
	}

	x.tree.Load(off, e) // fast if off is behind all other extents
}

// addJoined adds e at off, where no extent is, and joins it with its neighbours if possible.
func (x *extents) addJoined(off int64, e extent) {
	if at, prev, ok := x.floor(off); ok && at+prev.n == off && e.follows(prev) {
		x.remove(at)
		prev.n += e.n
		off, e = at, prev
	}

	if next, ok := x.get(off + e.n); ok && next.follows(e) {
		x.remove(off + e.n)
		e.n += next.n
	}

	x.add(off, e)
}

// get returns the extent that begins at off.
func (x *extents) get(off int64) (extent, bool) {
	if x.tree != nil {
		return x.tree.Get(off)
	}
	return x.single, x.single.n > 0 && off == x.singleOff
}

// remove removes the extent that begins at off.
func (x *extents) remove(off int64) {
	if x.tree != nil {
		x.tree.Delete(off)
	} else {
		x.single = extent{}
	}
}
