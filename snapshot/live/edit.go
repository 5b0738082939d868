package live

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Edit is a change of a whole view: a restore, an import, a merge. It is by the actor of
// the forest that it was begun with (see As), unless Graft.By has others. It is
// made on a copy of the state, without the lock. It is not visible before Tx.Apply
// puts it in place, and an error drops it.
type Edit struct {
	f        *Forest
	base     *view
	copy     *view
	heldBack []*view       // views whose changes wait
	done     chan struct{} // closed by End
	inv      Invalidation
	firstIno uint64 // of the inodes that the edit makes
	nextIno  uint64

	steps    Blobs
	replaced *tree.State // set by Tx.Apply, until keepHeldInodes

	// Changes is how many steps were written, each about the work of a record to recovery.
	Changes int
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

// edit is Edit with f.mu held, after the edit before it has ended.
func (f *Forest) edit(id uint32, hold []uint32) (*Edit, error) {
	v, ok := f.mu.views[id]
	if !ok {
		return nil, ErrStale
	}
	// An epoch for what the edit makes, and another one for all others.
	f.mu.epoch += 2
	e := &Edit{f: f, base: v, nextIno: f.mu.nextIno, done: make(chan struct{}), steps: Blobs{to: &f.blobs, urgent: true}}
	e.copy = &view{trees: v.trees, id: id, state: v.state.Clone(), epoch: f.mu.epoch - 1, by: f.actorsOf()}
	e.copy.editor.Changed = e.copy.mark
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
func (e *Edit) Steps() []Span { return e.steps.Spans }

// Next returns the number above those of the edit's inodes.
func (e *Edit) Next() uint64 { return e.nextIno }

// Sealed makes a sealed state, in which the inode numbers below next are used, what the
// view becomes. It is for recovery.
func (e *Edit) Sealed(st *tree.State, next uint64) { e.copy.state, e.nextIno = st, next }

// Depth returns the bound of how deep the edited state is nested.
func (e *Edit) Depth() int { return e.copy.state.Depth }

// Redo makes steps again that are in the journal. It is for recovery, with f.mu held.
func (e *Edit) Redo(steps []Span, now int64, depth int) error {
	f := e.f
	e.copy.state.Depth = depth
	for _, s := range steps {
		if s.Len < 0 || s.Len > journal.MaxPayload {
			return fmt.Errorf("%w: %d bytes of steps", tree.ErrMalformed, s.Len)
		}
		b := make([]byte, s.Len)
		if err := f.log.ReadAt(b, s.Pos, s.Pos); err != nil {
			return err
		}
		for d := wire.NewDecoder(b); d.Remaining() > 0; {
			r := &record{kind: journal.Type(d.Byte()), view: e.copy.id, time: now}
			r.decode(d, e.copy.epoch)
			if err := d.Err(); err != nil {
				return err
			}
			if err := e.redo(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Edit) redo(r *record) error {
	if r.ino2 != 0 {
		from, _, err := e.f.inode(Node(r.view2, r.ino2))
		if err != nil {
			return err
		}
		r.node.Content = from.Content
	}
	e.Changes++
	if r.kind == recPut {
		e.nextIno = max(e.nextIno, r.node.Ino+1)
	}
	return e.copy.applyStep(r, func(uint64, string, *tree.Inode, bool) {})
}

// Apply puts an edit in place, and returns what that replaced; all of it after End.
// It does not fail. Until End, inodes that the kernel still references are found in the
// state before, which the caller keeps (snapshot.Store.Hold).
func (tx *Tx) Apply(e *Edit) Invalidation {
	f, v := tx.f, e.base
	f.mu.changes++
	v.changed = f.mu.changes
	if f.held.Load() != nil {
		e.replaced = v.state
		v.before = append(v.before, e.replaced)
	}
	v.state = e.copy.state
	v.attribution.sets, v.attribution.frozen = append(slices.Clip(v.attribution.sets), e.copy.attribution.sets...), true
	f.sawIno(e.nextIno - 1)
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

func (e *Edit) keepHeld(id NodeID) bool {
	e.f.mu.RLock()
	defer e.f.mu.RUnlock()
	if !e.f.Held(id) {
		return false
	}
	_, ok := e.base.orphan(id.Ino())
	if ok && !e.f.Held(id) { // forgotten meanwhile
		e.base.orphans.remove(e.f.src, e.f.mu.epoch, id.Ino())
		return false
	}
	return ok
}

// seal calls with for the edited state. What comes belongs to another epoch.
func (e *Edit) seal(with func(*tree.State) error) error {
	if err := with(e.copy.state); err != nil {
		return err
	}
	e.f.mu.Lock()
	defer e.f.mu.Unlock()
	e.f.mu.epoch += 2
	e.copy.epoch = e.f.mu.epoch - 1
	return nil
}
