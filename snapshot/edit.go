package snapshot

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// afterEdit describes the snapshot of the state after an edit.
type afterEdit struct {
	CaptureOptions
	undoes *catalogue.Undone
}

// A change is a restore or a merge of which the steps are known.
type change struct {
	w        *Workspace
	edit     *live.Edit // nil for a dry run
	steps    []graft.Step
	graft    live.Graft
	stored   bool           // contents of the steps were put into the chunk store
	restored uint32         // see catalogue.Edit
	dir      string         // the same
	before   CaptureOptions // the snapshot of the state before
	after    *afterEdit     // that of the state after, nil for none
	check    func() error   // asked with the lock held
}

// outcome is what a change has done, or would do.
type outcome struct {
	Changes
	conflicts []string
	inv       live.Invalidation
	steps     []graft.Step
	after     string // the snapshot of the state after
}

// make journals the steps and makes them.
func (c change) make(ctx context.Context) (out outcome, err error) {
	s := c.w.store
	out.steps = c.steps
	out.Changed, out.Paths, out.More = graft.Listed(c.steps)
	if len(c.steps) == 0 && c.dir == "" || c.edit == nil {
		return out, nil
	}
	if c.stored {
		if err := s.cas.Commit(); err != nil {
			return out, err
		}
	}
	r := catalogue.Edit{WS: c.w.ws.View, Now: c.graft.Now, Restored: c.restored, Dir: c.dir}
	if err := s.graft(ctx, c.edit, &r, c.steps, c.graft); err != nil {
		return out, err
	}
	// The undo point stays as it is when only times of directories differ.
	inv, err := s.commitEdit(c.w, c.edit, &r, out.Changed > 0, c.before, c.after, c.check)
	if err == nil {
		out.inv, out.Undo, out.after = inv, r.Pre.Name, r.Post.Name
	}
	return out, err
}

// report passes on to the kernel and the log what a change did: the capture before it, and each
// path that it changed.
func (o *outcome) report(w *Workspace, from string, c actors.Caller) {
	w.store.tell(o.inv)
	if o.Undo == "" {
		return
	}
	w.store.event(Event{Workspace: w.ws.View, Action: "captured", From: o.Undo}, c)
	for i := range o.steps {
		if step := &o.steps[i]; !graft.Trivial(step) {
			p := graft.PathChangeOf(*step)
			w.store.event(Event{Workspace: w.ws.View, Action: "restored", Path: p.Path, From: from, Size: step.Size, Detail: p.Action}, c)
		}
	}
	if o.after != "" {
		w.store.event(Event{Workspace: w.ws.View, Action: "captured", From: o.after}, c)
	}
}

// graft makes steps in the edited workspace of a record, and fills the record in. If
// there are very many, the state that they lead to is sealed, which takes less memory
// than the steps. The caller is in gc.Puts.
func (s *Store) graft(ctx context.Context, e *live.Edit, r *catalogue.Edit, all []graft.Step, g live.Graft) error {
	g.Record = true
	if len(all) > s.opt.ManyChanges || r.Dir != "" { // recovery could not find the contents of the directory
		g.Record, g.Seal = false, s.sealsEdit(ctx, r)
	}
	if err := e.Graft(ctx, all, g); err != nil {
		if r.State != "" {
			s.Abandon()
		}
		return err
	}
	return s.grafted(e, r)
}

// grafted fills the record of an edit in, and returns when all that it refers to but for
// the journal is on disk.
func (s *Store) grafted(e *live.Edit, r *catalogue.Edit) error {
	r.Steps, r.Depth = e.Steps(), e.Depth()
	r.SetActors(e.Actors())
	if r.State == "" {
		return nil
	}
	r.NextIno = e.Next()
	return s.cas.Commit()
}

// sealsEdit returns what seals the states of an edit for its record, which has the id of
// the last one. The caller is in gc.Puts.
func (s *Store) sealsEdit(ctx context.Context, r *catalogue.Edit) func(*tree.State) error {
	return func(st *tree.State) error {
		id, err := s.seal.To(ctx, s.cas, st)
		r.State = id.String()
		return err
	}
}

// commitEdit journals an edit and puts it in place, if check allows it with the lock held.
// With undo the state before is captured as before describes it, and that after as after does, if
// it is not nil.
func (s *Store) commitEdit(w *Workspace, e *live.Edit, r *catalogue.Edit, undo bool, before CaptureOptions, after *afterEdit, check func() error) (live.Invalidation, error) {
	var inv live.Invalidation
	err := s.forest.Update(false, func(tx *live.Tx) error {
		if err := errors.Join(s.cat.Alive(w.ws), check()); err != nil {
			return err
		}
		if undo {
			if err := s.describeEdit(tx, w, e, r, before, after); err != nil {
				return err
			}
		}
		t := &trees{Tx: tx, s: s, edit: e}
		err := s.commitTo(t, r)
		inv = t.inv
		return err
	})
	if err != nil && r.State != "" {
		s.Abandon()
	}
	return inv, err
}

func (s *Store) describeEdit(tx *live.Tx, w *Workspace, e *live.Edit, r *catalogue.Edit, before CaptureOptions, after *afterEdit) error {
	if after == nil {
		return s.cat.Describe(r, tx, w.ws, w.describe(before), nil, nil, nil)
	}
	after.Caller = before.Caller
	post := w.describe(after.CaptureOptions)
	return s.cat.Describe(r, tx, w.ws, w.describe(before), &post, e.Actors().Actors(), after.undoes)
}
