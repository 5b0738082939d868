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
	held []*view       // whose changes wait
	done chan struct{} // closed by End
	inv  Invalidation
	next uint64 // inode number

	applied bool // and not sifted

	before *tree.State // what was replaced, until it is sifted or Forgotten
	after  *tree.State // of a Merge

	// Changes is how many a Graft made, each about the work of a record to recovery.
	Changes int

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
	e := &Edit{f: f, base: v, done: make(chan struct{})}
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
// It does not fail. What the kernel holds of what was replaced is found in the state
// before, which the caller keeps (snapshot.Store.Hold) until then.
func (tx *Tx) Apply(e *Edit) Invalidation {
	f, v := tx.f, e.base
	f.mu.changes++
	v.changed = f.mu.changes
	if f.held.Load() != nil {
		if e.before == nil {
			e.before, e.applied = v.state, true
		}
		v.before = append(v.before, e.before)
	}
	v.state = e.copy.state
	f.sawIno(e.next - 1)
	return e.inv
}

// sift finds out what went with an edit that was applied and that the kernel still
// holds. Nothing without a name comes to be held.
func (e *Edit) sift() {
	if !e.applied {
		return
	}
	e.applied = false
	defer e.Forgotten()
	t := &formerTree{state: e.before}
	for i, entry := range e.inv.Entries.numbered() {
		if entry.Was != 0 && e.f.isHeld(entry.Was) {
			e.inv.Entries.isGone(i)
			t.add(entry.Was.Ino())
		}
	}
	if t.n == 0 {
		return
	}
	e.base.orphans.putTree(e.f.src, t)
	for entry := range e.inv.Entries.All() {
		if id := entry.Gone; id != 0 && !e.f.isHeld(id) { // forgotten meanwhile
			e.base.orphans.remove(e.f.src, id.Ino())
		}
	}
}
