package live

import (
	"context"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Edit is a change of a whole view: a restore, an import, a merge. Its actor is the actor of the
// forest that it was begun with (see As), unless Graft.By returns others. It is
// made on a copy of the state, without the forest's lock. It becomes visible when Tx.Apply
// replaces the view by the copy. An edit that is not applied has no effect.
type Edit struct {
	f        *Forest
	base     *view
	to       graft.Target  // a copy of the view's state
	heldBack []*view       // views whose changes wait for End
	done     chan struct{} // closed by End
	inv      Invalidation
	sealed   bool               // in recovery: the edit has no steps, so inv is unknown
	removed  []*tree.Inode      // in recovery: the inodes that the edit removes
	mounted  map[tree.Link]bool // see isMountPoint; nil before loadMountPoints

	by          []string // the actors of the present step
	attribution actors.Recent

	steps    Blobs
	enc      *wire.Encoder // encoded steps that are not in the journal yet
	replaced *tree.State   // the view's old state, from Tx.Apply until keepHeldInodes

	// Changes is the number of recorded steps. Recovery takes about as long for a step as for a record.
	Changes  int
	unsealed int // steps since the edited state was last sealed
}

// Edit begins an edit of a view. Changes of this view, and of the views that are read
// for the edit, wait until End.
func (f *Forest) Edit(ctx context.Context, id uint32, reads ...uint32) (*Edit, error) {
	views := append(reads, id)
	if !f.lockUnless(ctx.Done(), views) {
		return nil, ctx.Err()
	}
	defer f.mu.Unlock()
	return f.beginEdit(id, views)
}

// beginEdit begins an edit of a view. Changes of the views in hold wait until End. The caller holds the
// forest's lock, and no other edit of the view is running.
func (f *Forest) beginEdit(id uint32, hold []uint32) (*Edit, error) {
	v, ok := f.mu.views[id]
	switch {
	case !ok || v.ended:
		return nil, errs.Stale
	case v.readOnly:
		return nil, ErrTooHeavy
	}

	e := &Edit{
		f: f, base: v, done: make(chan struct{}), by: f.editActors(),
		steps: Blobs{to: f.blobs, urgent: true}, enc: wire.NewEncoder(nil),
	}
	e.to = graft.Target{
		Editor:  tree.Editor{State: v.state.Clone(), Source: f.waiting, Epoch: f.epochLocked(), Changed: e.markChanged},
		Base:    v.state,
		Numbers: f.Numbers, Next: f.mu.nextIno,
		Replaced: e.addReplaced, Mounted: e.isMountPoint, Beneath: e.beneath,
	}
	for _, id := range hold {
		if h, ok := f.mu.views[id]; ok {
			h.edited = e.done
			e.heldBack = append(e.heldBack, h)
		}
	}

	return e, nil
}

// Edit is Forest.Edit for recovery, when no other goroutine changes the forest.
func (tx *Tx) Edit(id uint32) (*Edit, error) { return tx.f.beginEdit(id, nil) }

// Base returns the state of the view, which does not change until the edit ends.
func (e *Edit) Base() *tree.State { return e.base.state }

// End ends an edit, applied or not: changes of the views that waited for it continue. It may be called
// twice.
func (e *Edit) End() {
	e.keepHeldInodes()
	e.steps.Done()
	e.f.mu.Lock()
	defer e.f.mu.Unlock()

	if e.heldBack == nil {
		return
	}
	for _, v := range e.heldBack {
		v.edited = nil
	}

	e.heldBack = nil
	close(e.done)
}

// Steps returns the places of the recorded steps in the journal. The journal does not drop them before
// End. After End it keeps them as long as recovery needs a record after them.
func (e *Edit) Steps() []graft.Span { return e.steps.Spans }

// Next returns a number that is higher than the inode numbers of the edited state.
func (e *Edit) Next() uint64 { return e.to.Next }

// Sealed makes a sealed state the result of the edit, in place of steps. Its inode numbers are below
// next. It is for recovery.
func (e *Edit) Sealed(st *tree.State, next uint64) error {
	e.to.State, e.to.Next, e.sealed = st, next, true
	return e.findRemoved()
}

// Depth returns State.Depth of the edited state.
func (e *Edit) Depth() int { return e.to.State.Depth }

// Apply replaces the view by the edited state. It returns the names and inodes that changed, in which
// Entry.Gone is set only after End. It cannot fail. If the result is not empty, the caller notifies the
// kernel and then calls Noticed.
//
// Until End, inodes to which the kernel has references are read from the old state, so the caller
// keeps that state (snapshot.Store.Hold).
func (tx *Tx) Apply(e *Edit) Invalidation {
	f, v := tx.f, e.base
	v.touched.Change()
	f.mu.changes++
	v.changed = f.mu.changes
	if f.mu.replaying {
		f.inherit(e)
	} else if f.held.Load() != nil {
		e.replaced = v.state
		v.before = append(v.before, e.replaced)
	}

	v.state = e.to.State
	v.protection.forget()
	f.memory.Take(v.id, int64(e.unsealed)*InodeBytes, 0, true)
	v.attribution.Append(&e.attribution)
	f.sawIno(e.to.Next - 1)
	if !f.mu.replaying && !e.inv.Empty() {
		f.mu.untold[v.id] = append(f.mu.untold[v.id], e.inv.rootNames())
	}

	return e.inv
}

// keepHeldInodes makes orphans of the inodes that an applied edit has removed and to which the kernel has
// references. The kernel cannot get new references to them.
func (e *Edit) keepHeldInodes() {
	if e.replaced == nil {
		return
	}

	// Drop orphans below a mount to which the kernel has no reference any more.
	maps.DeleteFunc(e.base.beneath, func(_ tree.Link, ino uint64) bool { return !e.f.Held(Node(e.base.id, ino)) })

	for i := range e.inv.Entries {
		if entry := &e.inv.Entries[i]; entry.Was != 0 && e.keepHeld(entry.Was) {
			entry.Gone = entry.Was
			if entry.MountPoint {
				if e.base.beneath == nil {
					e.base.beneath = make(map[tree.Link]uint64)
				}
				e.base.beneath[tree.Link{Parent: entry.Parent.Ino(), Name: entry.Name}] = entry.Was.Ino()
			}
		}
	}

	e.f.mu.Lock()
	defer e.f.mu.Unlock()

	e.base.before = slices.DeleteFunc(e.base.before, func(st *tree.State) bool { return st == e.replaced })
	e.replaced = nil
}

// keepHeld makes an inode of the replaced state an orphan if the kernel has a reference to it, and
// reports whether it has.
func (e *Edit) keepHeld(id NodeID) (kept bool) {
	_ = e.f.reading(func() error {
		if !e.f.Held(id) {
			return nil
		}
		n, err := e.base.inode(id.Ino()) // makes it an orphan, see view.orphan
		kept = err == nil && n.Nlink == 0
		if kept && !e.f.Held(id) { // the kernel has dropped its last reference since
			e.base.orphans.remove(e.f.waiting, e.f.mu.epoch, id.Ino())
			kept = false
		}

		return err
	})
	return kept
}
