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
// The changes are attributed to the actor that began the edit, unless GraftOptions.ActorsOf returns other actors.
type Edit struct {
	trees           *trees
	view            *view
	target          graft.Target  // a copy of the view's state
	heldBackViews   []*view       // views whose changes wait for End
	done            chan struct{} // closed by End
	invalidation    Invalidation
	hasSealedResult bool               // in recovery: SetResult has set a sealed state without steps, so the invalidation is unknown
	removedInodes   []*tree.Inode      // in recovery: the inodes that the edit removes
	mountPoints     map[tree.Link]bool // names on which or below which file systems are mounted; nil before loadMountPoints

	stepActors  []string // the actors of the present step
	attribution actors.RecentSets

	steps         Blobs
	enc           *wire.Encoder // encoded steps that are not in the journal yet
	replacedState *tree.State   // the view's state before the edit, from Tx.Apply until keepHeldInodes

	// StepCount is the number of recorded steps. Recovery takes about as long for a step as for a record.
	StepCount     int
	unsealedSteps int // steps that were made since the edited state was last sealed
}

// Edit begins an edit of the view id by an actor, "" if the actor is unknown. Changes of this view and of
// readViews wait until End.
func (f *Forest) Edit(ctx context.Context, actor string, id uint32, readViews ...uint32) (*Edit, error) {
	views := append(readViews, id)
	if !f.trees.lockUnless(ctx.Done(), views) {
		return nil, ctx.Err()
	}
	defer f.trees.mu.Unlock()
	return f.trees.beginEdit(id, views, actor)
}

// beginEdit begins an edit of the view id by an actor. Changes of the views in holdBack wait until End. The caller
// holds the forest's lock, and no other edit of the view is running.
func (t *trees) beginEdit(id uint32, holdBack []uint32, actor string) (*Edit, error) {
	v, ok := t.mu.views[id]
	switch {
	case !ok || v.ended:
		return nil, errs.Stale
	case v.readOnly:
		return nil, ErrReadOnlyAfterKills
	}

	e := &Edit{
		trees: t, view: v, done: make(chan struct{}), stepActors: []string{cmp.Or(actor, actors.Unknown)},
		steps: Blobs{log: t.blobs, urgent: true}, enc: wire.NewEncoder(nil),
	}
	e.target = graft.Target{
		Editor:      tree.Editor{State: v.state.Clone(), Source: t.waitingSrc, Epoch: t.newEpoch(), OnChanged: e.attributeInode},
		Base:        v.state,
		ReserveInos: Counters{t}.ReserveInos, NextIno: t.mu.nextIno,
		OnReplaced: e.addReplaced, IsMountPoint: e.isMountPoint, MountOrphan: e.orphanBeneathMount,
	}
	for _, id := range holdBack {
		if h, ok := t.mu.views[id]; ok {
			h.editDone = e.done
			e.heldBackViews = append(e.heldBackViews, h)
		}
	}

	return e, nil
}

// Edit begins an edit of a view in recovery, when no other goroutine changes the forest.
func (tx *Tx) Edit(id uint32) (*Edit, error) { return tx.trees.beginEdit(id, nil, "") }

// Base returns the state of the view, which does not change until the edit ends.
func (e *Edit) Base() *tree.State { return e.view.state }

// End ends an edit, which was applied or not. Changes that waited for the edit continue. End may be called
// twice.
func (e *Edit) End() {
	e.keepHeldInodes()
	e.steps.Release()
	e.trees.mu.Lock()
	defer e.trees.mu.Unlock()

	if e.heldBackViews == nil {
		return
	}
	for _, v := range e.heldBackViews {
		v.editDone = nil
	}

	e.heldBackViews = nil
	close(e.done)
}

// Steps returns the places of the recorded steps in the journal. Until End the journal keeps the steps. After End
// the journal keeps them as long as recovery needs the record that the caller has appended after them.
func (e *Edit) Steps() []graft.JournalSpan { return e.steps.Spans }

// NextIno returns a number that is higher than the inode numbers of the edited state.
func (e *Edit) NextIno() uint64 { return e.target.NextIno }

// SetResult makes st, a sealed state with inode numbers below next, the result of the edit. Recovery calls it for
// an edit without steps.
func (e *Edit) SetResult(st *tree.State, next uint64) error {
	e.target.State, e.target.NextIno, e.hasSealedResult = st, next, true
	return e.findRemovedInodes()
}

// Depth returns State.Depth of the edited state.
func (e *Edit) Depth() int { return e.target.State.Depth }

// Apply replaces the view by the edited state. It returns the changed names and inodes; End sets their
// Entry.HeldNode. Apply cannot fail. If the result is not empty, the caller notifies the kernel and then calls
// MarkNoticed.
//
// Until End, inodes to which the kernel has references are read from the old state, so the caller protects the old
// state from gc (snapshot.Store.Hold).
func (tx *Tx) Apply(e *Edit) Invalidation {
	t, v := tx.trees, e.view
	v.changeMark.MarkChanged()
	t.mu.changeCount++
	v.changeNumber = t.mu.changeCount
	if t.mu.replaying {
		e.addToInheritance()
	} else if t.mount.Load() != nil {
		e.replacedState = v.state
		v.replacedStates = append(v.replacedStates, e.replacedState)
	}

	v.state = e.target.State
	v.protection.clearCache()
	t.memory.Take(v.id, int64(e.unsealedSteps)*InodeBytes, 0, true)
	v.attribution.Append(&e.attribution)
	t.raiseNextIno(e.target.NextIno - 1)
	if !t.mu.replaying && !e.invalidation.IsEmpty() {
		t.mu.unnoticed[v.id] = append(t.mu.unnoticed[v.id], e.invalidation.rootNames())
	}

	return e.invalidation
}

// keepHeldInodes makes orphans of the inodes that an applied edit has removed and to which the kernel has
// references. The kernel cannot get new references to these inodes.
func (e *Edit) keepHeldInodes() {
	if e.replacedState == nil {
		return
	}

	// Drop the mountOrphans to which the kernel has no reference any more.
	maps.DeleteFunc(e.view.mountOrphans, func(_ tree.Link, ino uint64) bool { return !e.trees.isHeld(Node(e.view.id, ino)) })

	for i := range e.invalidation.Entries {
		if entry := &e.invalidation.Entries[i]; entry.OldNode != 0 && e.orphanIfHeld(entry.OldNode) {
			entry.HeldNode = entry.OldNode
			if entry.MountPoint {
				if e.view.mountOrphans == nil {
					e.view.mountOrphans = make(map[tree.Link]uint64)
				}
				e.view.mountOrphans[tree.Link{Parent: entry.Parent.Ino(), Name: entry.Name}] = entry.OldNode.Ino()
			}
		}
	}

	e.trees.mu.Lock()
	defer e.trees.mu.Unlock()

	e.view.replacedStates = slices.DeleteFunc(e.view.replacedStates, func(st *tree.State) bool { return st == e.replacedState })
	e.replacedState = nil
}

// orphanIfHeld makes an inode of the replaced state an orphan if the kernel has a reference to the inode. It
// reports whether the inode is an orphan now.
func (e *Edit) orphanIfHeld(id NodeID) (kept bool) {
	_ = e.trees.withReadLock(func() error {
		if !e.trees.isHeld(id) {
			return nil
		}
		n, err := e.view.inode(id.Ino()) // makes the inode an orphan, see view.orphan
		kept = err == nil && n.Nlink == 0
		if kept && !e.trees.isHeld(id) { // the kernel has dropped its last reference after the check above
			e.view.orphans.remove(e.trees.waitingSrc, e.trees.mu.epoch, id.Ino())
			kept = false
		}

		return err
	})
	return kept
}
