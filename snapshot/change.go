package snapshot

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/threeway"
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
	stored   bool   // contents of the steps were put into the chunk store
	restored uint32 // see catalogue.Edit
	dir      string // the same
	answer   catalogue.EditAnswer
	before   CaptureOptions // the snapshot of the state before
	after    *afterEdit     // that of the state after, nil for none
	check    func() error   // asked with the lock held
	leave    func()         // lets a gc go on that waits for the objects of a plan; may be called twice
}

// outcome is what a change has done, or would do.
type outcome struct {
	Changes
	conflicts []string
	said      []threeway.Repository
	inv       live.Invalidation
	steps     []graft.Step
	after     string // the snapshot of the state after
}

// make journals the steps and makes them.
func (c change) make(ctx context.Context) (out outcome, err error) {
	out.steps = c.steps
	out.Changed, out.Paths, out.More = graft.Listed(c.steps)
	if len(c.steps) == 0 && c.dir == "" || c.edit == nil {
		return out, nil
	}
	if c.stored {
		if err := c.w.store.cas.Commit(); err != nil {
			return out, err
		}
	}
	d := editing{w: c.w, e: c.edit, before: c.before, after: c.after}
	defer d.end()
	d.r = catalogue.Edit{WS: c.w.ws.View, Now: c.graft.Now, Restored: c.restored, Dir: c.dir}
	if c.before.Caller.Request != 0 {
		d.r.Answer = &c.answer
		d.r.Answer.Changed, d.r.Answer.Paths, d.r.Answer.More = out.Changed, out.Paths, out.More
		if len(out.Paths) > catalogue.MaxAnswerPaths {
			d.r.Answer.Paths, d.r.Answer.More = out.Paths[:catalogue.MaxAnswerPaths], true
		}
	}
	if err := d.graft(ctx, c.steps, c.graft); err != nil {
		return out, err
	}
	// The undo point stays as it is when only times of directories differ.
	inv, err := d.commit(out.Changed > 0, c.check)
	if err == nil {
		out.inv, out.Undo, out.after = inv, d.r.Pre.Name, d.r.Post.Name
	}
	return out, err
}

// report notifies the kernel of a change, and writes the snapshot before it and each changed path
// to the log.
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

// editing is an edit with its record, which is filled in.
type editing struct {
	w      *Workspace
	e      *live.Edit
	r      catalogue.Edit
	before CaptureOptions // see change
	after  *afterEdit
	// release gives up what gc keeps until the record is in the catalogue: the state that was
	// sealed last.
	release func()
}

// graft makes steps. If there are very many, the state that they lead to is sealed, which takes
// less memory than the steps.
func (d *editing) graft(ctx context.Context, all []graft.Step, g live.Graft) error {
	g.Record = true
	if len(all) > d.w.store.opt.ManyChanges || d.r.Dir != "" { // recovery could not find the contents of the directory
		g.Record, g.Seal = false, d.seals(ctx)
	}
	if err := d.e.Graft(ctx, all, g); err != nil {
		if d.r.State != "" {
			d.w.store.Abandon()
		}
		return err
	}
	return d.made()
}

// made returns when all that the record refers to but for the journal is on disk.
func (d *editing) made() error {
	d.r.Steps, d.r.Depth = d.e.Steps(), d.e.Depth()
	d.r.SetActors(d.e.Actors())
	if d.r.State == "" {
		return nil
	}
	d.r.NextIno = d.e.Next()
	return d.w.store.cas.Commit()
}

// seals returns what seals the states of the edit. The record has the id of the last one. Until
// end, gc keeps that state, which nothing else refers to.
func (d *editing) seals(ctx context.Context) func(*tree.State) error {
	return func(st *tree.State) error {
		release := d.w.store.Hold(st)
		d.end()
		d.release = release
		id, err := d.w.store.seal.Edited(ctx, d.w.ws.View, st)
		d.r.State = id.String()
		return err
	}
}

func (d *editing) end() {
	if d.release != nil {
		d.release()
	}
}

// commit journals the edit and puts it in place, if check allows it with the lock held. With undo
// the states before and after are captured.
func (d *editing) commit(undo bool, check func() error) (live.Invalidation, error) {
	s := d.w.store
	t := &trees{s: s, edit: d.e}
	err := s.forest.Update(false, func(tx *live.Tx) error {
		t.Tx = tx
		if err := errors.Join(d.w.ws.Alive(), check()); err != nil {
			return err
		}
		if undo {
			if err := d.describe(tx); err != nil {
				return err
			}
		}
		return t.commit(&d.r, d.before.Caller)
	})
	switch {
	case err == nil:
		s.replaced(&t.inv)
	case d.r.State != "":
		s.Abandon()
	}
	return t.inv, err
}

func (d *editing) describe(tx *live.Tx) error {
	cat, now := d.w.store.cat, d.w.store.opt.Now()
	before := d.before.describe(now)
	if d.after == nil {
		return cat.Describe(&d.r, tx, d.w.ws, before, nil, nil, nil)
	}
	d.after.Caller = d.before.Caller
	after := d.after.describe(now)
	return cat.Describe(&d.r, tx, d.w.ws, before, &after, d.e.Actors().Actors(), d.after.undoes)
}
