package content

import "github.com/tidwall/btree"

// runIter goes through the runs of a layout one after the other, for those who
// look at two layouts side by side. To ask each for the run at an offset (layout.at)
// takes ten times as long with 100,000 extents.
type runIter struct {
	l    *layout
	off  int64
	tree btree.MapIter[int64, extent]
	at   int64 // where next begins
	next extent
	ok   bool // there is an extent that ends after off: next
}

// iter returns an iterator that stands at offset 0.
func (l *layout) iter() runIter {
	r := runIter{l: l}
	if l.ext.tree != nil {
		r.tree = l.ext.tree.Iter()
		if r.ok = r.tree.First(); r.ok {
			r.at, r.next = r.tree.Key(), r.tree.Value()
		}
	} else {
		r.next, r.ok = l.ext.one(), l.ext.n > 0
	}
	return r
}

// run returns the run from off on; its n is 0 at the end of the file.
func (r *runIter) run() extent {
	switch {
	case r.off >= r.l.size:
		return extent{}
	case !r.ok:
		return r.l.gap(r.off, r.l.size)
	case r.off < r.at:
		return r.l.gap(r.off, r.at)
	}
	return r.next.sub(r.off-r.at, r.at+r.next.n-r.off)
}

// skip goes n bytes on.
func (r *runIter) skip(n int64) {
	r.off += n
	for r.ok && r.at+r.next.n <= r.off {
		if r.ok = r.l.ext.tree != nil && r.tree.Next(); r.ok {
			r.at, r.next = r.tree.Key(), r.tree.Value()
		}
	}
}

// sideBySide calls fn for the pieces of two layouts that are in one run of each,
// up to the end of the shorter one, until it answers false.
func sideBySide(a, b *layout, fn func(off int64, x, y extent) bool) {
	ia, ib := a.iter(), b.iter()
	for {
		x, y := ia.run(), ib.run()
		n := min(x.n, y.n)
		if n == 0 || !fn(ia.off, x.sub(0, n), y.sub(0, n)) {
			return
		}
		ia.skip(n)
		ib.skip(n)
	}
}
