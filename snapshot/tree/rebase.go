package tree

// Rebase puts c on top of the sealed version before it, if there is one: what c
// has in common with that version is read from its chunks from then on, and
// extents remain only for what is c's own. So the journal can be dropped up to
// what was written since. The bytes of c stay the same.
//
// It is safe while others read a frozen c without the lock.
func (c *Content) Rebase(*Source) {
	if c == nil {
		return
	}
	a := c.link.Load()
	if a == nil {
		return
	}
	if b := a.prev.sealed.Load(); b != nil {
		// Neither exchange takes place if a sealer of c was faster.
		if old := c.layout.Load(); c.layout.CompareAndSwap(old, old.rebased(a.from, b)) {
			c.link.CompareAndSwap(a, nil)
		}
	}
}

// rebased returns a layout on top of b that says what l says, where b is what a
// file of layout from was sealed as.
//
// Where l and from have the same run (the same place in the journal or in a Base
// for the same offset, or a hole or a reservation in both), the two files have
// the same there, and so has b: nothing needs to lie over it. Everything else
// becomes an extent. That is right whatever l and from are. It is small since l
// began as a copy of from: only what was changed since differs. An extent of
// from is gone from l only where another one has taken its place, and where
// truncation cut it off; what l, grown again, has behind such a cut is a hole
// that from has not, so that the hole becomes an extent and b does not shine
// through.
func (l *layout) rebased(from *layout, b *Base) *layout {
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
