package content

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
