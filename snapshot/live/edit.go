package live

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Edit is a change of a whole view: a restore, an import, a merge. It changes a copy of the view's state,
// without the forest's lock. The change becomes visible when Tx.Apply replaces the view by the copy. An edit
// that is not applied has no effect.
//
// The changes are attributed to the actor that began the edit, unless Graft.By returns other actors.
type Edit struct {
	trees    *trees
	base     *view
	to       graft.Target  // a copy of the view's state
	heldBack []*view       // views whose changes wait for End
	done     chan struct{} // closed by End
	inv      Invalidation
	sealed   bool               // in recovery: the edit is a sealed state without steps, so inv is unknown
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

// Edit begins an edit of a view by an actor, "" if the actor is unknown. Changes of this view and of the
// views in reads wait until End.
func (f *Forest) Edit(ctx context.Context, by string, id uint32, reads ...uint32) (*Edit, error) {
	views := append(reads, id)
	if !f.trees.lockUnless(ctx.Done(), views) {
		return nil, ctx.Err()
	}
	defer f.trees.mu.Unlock()
	return f.trees.beginEdit(id, views, by)
}

// beginEdit begins an edit of a view by an actor. Changes of the views in hold wait until End. The caller
// holds the forest's lock, and no other edit of the view is running.
func (t *trees) beginEdit(id uint32, hold []uint32, by string) (*Edit, error) {
	v, ok := t.mu.views[id]
	switch {
	case !ok || v.ended:
		return nil, errs.Stale
	case v.readOnly:
		return nil, ErrTooHeavy
	}

	e := &Edit{
		trees: t, base: v, done: make(chan struct{}), by: []string{cmp.Or(by, actors.Unknown)},
		steps: Blobs{to: t.blobs, urgent: true}, enc: wire.NewEncoder(nil),
	}
	e.to = graft.Target{
		Editor:  tree.Editor{State: v.state.Clone(), Source: t.waiting, Epoch: t.newEpoch(), Changed: e.markChanged},
		Base:    v.state,
		Numbers: Counters{t}.Numbers, Next: t.mu.nextIno,
		Replaced: e.addReplaced, Mounted: e.isMountPoint, Beneath: e.beneath,
	}
	for _, id := range hold {
		if h, ok := t.mu.views[id]; ok {
			h.edited = e.done
			e.heldBack = append(e.heldBack, h)
		}
	}

	return e, nil
}

// Edit begins an edit of a view in recovery, when no other goroutine changes the forest.
func (tx *Tx) Edit(id uint32) (*Edit, error) { return tx.trees.beginEdit(id, nil, "") }

// Base returns the state of the view, which does not change until the edit ends.
func (e *Edit) Base() *tree.State { return e.base.state }

// End ends an edit, which was applied or not. Changes that waited for the edit continue. End may be called
// twice.
func (e *Edit) End() {
	e.keepHeldInodes()
	e.steps.Done()
	e.trees.mu.Lock()
	defer e.trees.mu.Unlock()

	if e.heldBack == nil {
		return
	}
	for _, v := range e.heldBack {
		v.edited = nil
	}

	e.heldBack = nil
	close(e.done)
}

// Steps returns the places of the recorded steps in the journal. Before End the journal does not drop the
// steps. After End it keeps them as long as recovery needs a record after them.
func (e *Edit) Steps() []graft.Span { return e.steps.Spans }

// Next returns a number that is higher than the inode numbers of the edited state.
func (e *Edit) Next() uint64 { return e.to.Next }

// Sealed makes st, a sealed state with inode numbers below next, the result of the edit. Recovery calls it
// for an edit without steps.
func (e *Edit) Sealed(st *tree.State, next uint64) error {
	e.to.State, e.to.Next, e.sealed = st, next, true
	return e.findRemoved()
}

// Depth returns State.Depth of the edited state.
func (e *Edit) Depth() int { return e.to.State.Depth }

// Apply replaces the view by the edited state. It returns the changed names and inodes; their Entry.Gone is
// set only by End. It cannot fail. If the result is not empty, the caller notifies the kernel and then
// calls Noticed.
//
// Until End, inodes to which the kernel has references are read from the old state, so the caller
// protects the old state from gc (snapshot.Store.Hold).
func (tx *Tx) Apply(e *Edit) Invalidation {
	t, v := tx.trees, e.base
	v.touched.Change()
	t.mu.changes++
	v.changed = t.mu.changes
	if t.mu.replaying {
		e.inherit()
	} else if t.mount.Load() != nil {
		e.replaced = v.state
		v.before = append(v.before, e.replaced)
	}

	v.state = e.to.State
	v.protection.forget()
	t.memory.Take(v.id, int64(e.unsealed)*InodeBytes, 0, true)
	v.attribution.Append(&e.attribution)
	t.sawIno(e.to.Next - 1)
	if !t.mu.replaying && !e.inv.Empty() {
		t.mu.untold[v.id] = append(t.mu.untold[v.id], e.inv.rootNames())
	}

	return e.inv
}

// keepHeldInodes makes orphans of the inodes that an applied edit has removed and to which the kernel has
// references. The kernel cannot get new references to these inodes.
func (e *Edit) keepHeldInodes() {
	if e.replaced == nil {
		return
	}

	// Drop the orphans in beneath to which the kernel has no reference any more.
	maps.DeleteFunc(e.base.beneath, func(_ tree.Link, ino uint64) bool { return !e.trees.held(Node(e.base.id, ino)) })

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

	e.trees.mu.Lock()
	defer e.trees.mu.Unlock()

	e.base.before = slices.DeleteFunc(e.base.before, func(st *tree.State) bool { return st == e.replaced })
	e.replaced = nil
}

// keepHeld makes an inode of the replaced state an orphan if the kernel has a reference to the inode. It
// reports whether the inode is an orphan now.
func (e *Edit) keepHeld(id NodeID) (kept bool) {
	_ = e.trees.reading(func() error {
		if !e.trees.held(id) {
			return nil
		}
		n, err := e.base.inode(id.Ino()) // makes the inode an orphan, see view.orphan
		kept = err == nil && n.Nlink == 0
		if kept && !e.trees.held(id) { // the kernel has dropped its last reference after the check above
			e.base.orphans.remove(e.trees.waiting, e.trees.mu.epoch, id.Ino())
			kept = false
		}

		return err
	})
	return kept
}
