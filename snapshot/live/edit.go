package live

import (
	"context"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Edit is a change of a whole view: a restore, an import, a promotion. It is
// made on a copy of the state, without the lock. Nobody sees it before Tx.Apply
// puts it in place, and an error drops it.
type Edit struct {
	f    *Forest
	base *view
	copy *view
	held []*view                // whose changes wait
	done chan struct{}          // closed by End
	gone map[uint64]*tree.Inode // inodes that lost their last name
	last map[uint64]int         // of each: the entry of inv
	inv  Invalidation
	next uint64 // inode number

	applied bool // and not sifted

	before, after *tree.State // of a Merge

	// FirstIno is the number of the first inode that is made. Recovery sets it;
	// Graft sets it if it is 0.
	FirstIno uint64
}

// Edit begins an edit of a view. Changes of this view and of those that are read
// for it wait until End; others go on.
func (f *Forest) Edit(ctx context.Context, id uint32, reads ...uint32) (*Edit, error) {
	views := append(reads, id)
	for {
		f.mu.Lock()
		wait := f.heldBack(views)
		if wait == nil {
			defer f.mu.Unlock()
			return f.edit(id, views)
		}
		f.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// edit is Edit with f.mu held, after whoever is before it has ended.
func (f *Forest) edit(id uint32, hold []uint32) (*Edit, error) {
	v, ok := f.mu.views[id]
	if !ok {
		return nil, ErrStale
	}
	// An epoch for what the edit makes, and another one for everybody else.
	f.mu.epoch += 2
	e := &Edit{f: f, base: v, done: make(chan struct{}), gone: make(map[uint64]*tree.Inode), last: make(map[uint64]int)}
	e.copy = &view{id: id, state: v.state.Clone(), epoch: f.mu.epoch - 1}
	for _, id := range hold {
		if h, ok := f.mu.views[id]; ok {
			h.edited = e.done
			e.held = append(e.held, h)
		}
	}
	return e, nil
}

// Edit is Forest.Edit for recovery: nothing else goes on.
func (tx *Tx) Edit(id uint32) (*Edit, error) { return tx.f.edit(id, nil) }

// Base returns the state of the view, which stays as it is until the edit ends.
func (e *Edit) Base() *tree.State { return e.base.state }

// End lets changes of the views go on. It may be called twice.
func (e *Edit) End() {
	e.sift()
	e.f.mu.Lock()
	defer e.f.mu.Unlock()
	if e.held == nil {
		return
	}
	for _, v := range e.held {
		v.edited = nil
	}
	e.held = nil
	close(e.done)
}

// Apply puts an edit in place, and tells what that replaced; all of it after End.
// It does not fail.
func (tx *Tx) Apply(e *Edit) Invalidation {
	f, v := tx.f, e.base
	f.mu.changes++
	v.changed = f.mu.changes
	v.state = e.copy.state
	f.sawIno(e.next - 1)
	if e.before != nil && f.held.Load() != nil {
		v.before = append(v.before, e.before)
	}
	if len(e.gone) > 0 && f.held.Load() != nil {
		v.orphans.putAll(e.gone)
		e.applied = true
	}
	return e.inv
}

// lost notes that an inode has lost its last name, the one that the last entry of inv
// tells of.
func (e *Edit) lost(n *tree.Inode) {
	at := len(e.inv.Entries) - 1
	e.gone[n.Ino], e.last[n.Ino] = n, at
	e.inv.Entries[at].Was, e.inv.Entries[at].WasDir = Node(e.copy.id, n.Ino), n.IsDir()
}

// sift drops what went with an edit that was applied and that the kernel does
// not hold, and tells of the rest. Nothing without a name comes to be held.
func (e *Edit) sift() {
	if !e.applied {
		return
	}
	e.applied = false
	for ino, entry := range e.last {
		if id := Node(e.base.id, ino); e.f.isHeld(id) {
			e.inv.Entries[entry].Gone = id
		} else {
			e.base.orphans.remove(ino)
		}
	}
}
