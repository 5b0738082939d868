package content

// Rebase puts c on top of the sealed version before it, if there is one: what c
// has in common with that version is read from its chunks from then on, and
// extents remain only for what is c's own. So the journal can be dropped up to
// what was written since. The bytes of c stay the same.
//
// If the version before c is not sealed but an older one is, c takes from that
// what it can. Otherwise a file that changes between any two snapshots, with a
// sealer that is never quite up to date, would pin the journal forever.
//
// With a frozen c it needs no lock. Nothing is loaded.
func (c *Content) Rebase() {
	if c == nil {
		return
	}
	a := c.link.Load()
	older, b := a.sealed()
	if b == nil || b == a.on {
		return
	}
	old := c.layout.Load()
	after := &ancestry{prev: a.prev, from: a.from, on: b}
	var l *layout
	if older == a {
		l = old.rebased(a.from, b)
		if !c.heirs.Load() {
			after = nil
		}
	} else {
		l = old.borrowing(older.from, b)
		after.from = a.from.borrowing(older.from, b)
	}
	// Neither exchange takes place if a sealer of c was faster.
	if c.layout.CompareAndSwap(old, l) {
		c.link.CompareAndSwap(a, after)
	}
}

// sealed returns the nearest older version that is sealed, as the link that
// leads to it, and its ChunkMap.
func (a *ancestry) sealed() (*ancestry, *ChunkMap) {
	for a != nil {
		if b := a.prev.sealed.Load(); b != nil {
			return a, b
		}
		a = a.prev.link.Load()
	}
	return nil, nil
}

// rebased returns a layout on top of b that says what l says, where b is what a
// file of layout from was sealed as.
//
// Where l and from have the same run (the same place in the journal or in a ChunkMap
// for the same offset, or a hole or a reservation in both), the two files have
// the same there, and so has b: nothing needs to lie over it. Everything else
// becomes an extent. That is right whatever l and from are. It is small since l
// began as a copy of from: only what was changed since differs. An extent of
// from is gone from l only where another one has taken its place, and where
// truncation cut it off; what l, grown again, has behind such a cut is a hole
// that from has not, so that the hole becomes an extent and b does not shine
// through.
func (l *layout) rebased(from *layout, b *ChunkMap) *layout {
	n := baseLayout(b)
	n.size = l.size
	n.setBaseLen(l.size)
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
	n.alloc = l.alloc
	return n
}

// borrowing returns a layout that says what l says, but takes from b what l has
// in the journal and from, which b was sealed from, has at the same offset.
func (l *layout) borrowing(from *layout, b *ChunkMap) *layout {
	n := &layout{size: l.size, alloc: l.alloc, base: l.base, baseLen: l.baseLen}
	// Not a copy of the tree, which would need the lock.
	l.ext.from(0, func(off int64, e extent) bool {
		n.ext.add(off, e)
		return true
	})
	sideBySide(l, from, func(off int64, x, y extent) bool {
		if x == y && x.inJournal() {
			n.set(off, extent{n: x.n, pos: off, base: b})
		}
		return true
	})
	return n
}
