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

// An Edit is a change of a whole view: a restore, an import, a merge. It is by the actor of
// the forest that it was begun with (see As), unless Graft.By has others. It is
// made on a copy of the state, without the lock. It is not visible before Tx.Apply
// puts it in place, and an error drops it.
type Edit struct {
	f        *Forest
	base     *view
	to       graft.Target  // a copy of the view's state
	heldBack []*view       // views whose changes wait
	done     chan struct{} // closed by End
	inv      Invalidation
	sealed   bool               // recovery: there are no steps, so inv is unknown
	removed  []*tree.Inode      // recovery: inodes that are in the view no more
	mounted  map[tree.Link]bool // see isMountPoint; nil before the first question

	by          []string // the actors of what is changed now
	attribution actors.Recent

	steps    Blobs
	enc      *wire.Encoder // steps that are not in the journal yet
	replaced *tree.State   // set by Tx.Apply, until keepHeldInodes

	// Changes is how many steps were written, each about the work of a record to recovery.
	Changes  int
	unsealed int // of them, since the edited state was sealed last
}

// Edit begins an edit of a view. Changes of this view and of those that are read
// for it wait until End; others go on.
func (f *Forest) Edit(ctx context.Context, id uint32, reads ...uint32) (*Edit, error) {
	views := append(reads, id)
	if !f.lockUnless(ctx.Done(), views) {
		return nil, ctx.Err()
	}
	defer f.mu.Unlock()
	return f.edit(id, views)
}

// edit is Edit with f.mu held, after the edit before it has ended.
func (f *Forest) edit(id uint32, hold []uint32) (*Edit, error) {
	v, ok := f.mu.views[id]
	switch {
	case !ok:
		return nil, errs.Stale
	case v.fixed:
		return nil, ErrTooHeavy
	}
	e := &Edit{
		f: f, base: v, done: make(chan struct{}), by: f.actorsOf(),
		steps: Blobs{to: f.blobs, urgent: true}, enc: wire.NewEncoder(nil),
	}
	e.to = graft.Target{
		Editor:  tree.Editor{State: v.state.Clone(), Source: f.waiting, Epoch: f.ownEpoch(), Changed: e.mark},
		Base:    v.state,
		Numbers: f.Numbers, Next: f.mu.nextIno,
		Replaced: e.replacedName, Mounted: e.isMountPoint, Beneath: e.beneath,
	}
	for _, id := range hold {
		if h, ok := f.mu.views[id]; ok {
			h.edited = e.done
			e.heldBack = append(e.heldBack, h)
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

// Steps returns where the steps that were made are in the journal. They stay there
// until End, and from then on as long as recovery begins before a record that has them.
func (e *Edit) Steps() []graft.Span { return e.steps.Spans }

// Next returns the number above those of the edit's inodes.
func (e *Edit) Next() uint64 { return e.to.Next }

// Sealed makes a sealed state, in which the inode numbers below next are used, what the
// view becomes. It is for recovery.
func (e *Edit) Sealed(st *tree.State, next uint64) error {
	e.to.State, e.to.Next, e.sealed = st, next, true
	return e.findRemoved()
}

// Depth returns the bound of how deep the edited state is nested.
func (e *Edit) Depth() int { return e.to.State.Depth }

// Apply puts an edit in place, and returns what that replaced; all of it after End.
// It does not fail. Noticed must be called when the kernel knows of that, unless it is
// nothing. Until End, inodes that the kernel still references are found in the
// state before, which the caller keeps (snapshot.Store.Hold).
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
	f.memory.Take(v.id, int64(e.unsealed)*InodeBytes, 0, true)
	v.attribution.Append(&e.attribution)
	f.sawIno(e.to.Next - 1)
	if !f.mu.replaying && !e.inv.Empty() {
		f.mu.untold[v.id] = append(f.mu.untold[v.id], e.inv.rootNames())
	}
	return e.inv
}

// keepHeldInodes makes orphans of the inodes that an applied edit removed and that the
// kernel still references. The kernel cannot acquire new references to them.
func (e *Edit) keepHeldInodes() {
	if e.replaced == nil {
		return
	}
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

func (e *Edit) keepHeld(id NodeID) (kept bool) {
	_ = e.f.reading(func() error {
		if !e.f.Held(id) {
			return nil
		}
		n, err := e.base.inode(id.Ino())
		kept = err == nil && n.Nlink == 0
		if kept && !e.f.Held(id) { // forgotten meanwhile
			e.base.orphans.remove(e.f.waiting, e.f.mu.epoch, id.Ino())
			kept = false
		}
		return err
	})
	return kept
}
