package snapshot

import (
	"context"
	"path"
	"sync"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A change changes a workspace in one step: by a restore, a merge, a refresh, an import or an undo
// of an actor. It begins with an order, which a plan turns into steps.
type change struct {
	w      *Workspace
	reads  []uint32 // views of other workspaces that must not change before the change is made
	caller actors.Caller
	list   *budget.Charge // see RestoreOptions
	from   string         // the snapshot, fork, actor or directory that the changes come from

	now  *tree.State // the present state; the plan reads it
	edit *live.Edit  // nil for a dry run
	held []func()    // release the states that the change reads, see letGo

	changePlan
	Changes
	inv live.Invalidation
}

// A changePlan is what a change does. A plan sets the fields.
type changePlan struct {
	steps   []graft.Step
	overlay *graft.Overlay // in place of steps
	graft   live.Graft
	stored  *tree.State    // has contents of steps that no other state refers to; nil: there are none
	record  catalogue.Edit // Restored and Dir
	kept    []string       // paths that differ and stay as they are
	message string         // of the snapshot of the state before
	after   *CaptureOptions
	undoes  *catalogue.Undone
	check   func() error // called with the lock held before the change is published; may be nil

	conflicts []string
	said      []threeway.Repository
}

// change makes one change of the workspace. It does not call plan with a lock held. If other callers
// leave too little memory for the list of steps, it begins again once all of that memory is free.
// The result is never nil.
func (w *Workspace) change(ctx context.Context, order change, plan func(*change) error) (*change, error) {
	order.w = w
	c := order
	err := c.run(ctx, plan)
	if err != nil && order.list.Full() {
		if err := order.list.All(ctx); err != nil {
			return &c, err
		}
		c = order
		err = c.run(ctx, plan)
	}
	return &c, err
}

// run does the steps of a change in their one order. The states are let go last: until the edit
// has ended, it finds in them the inodes that the kernel still references.
func (c *change) run(ctx context.Context, plan func(*change) error) error {
	s := c.w.store
	defer c.letGo()

	if !c.DryRun {
		var err error
		if c.record.Placeholders, err = c.w.placeholders(c.caller); err != nil {
			return err
		}
	}

	// Take the edit.
	if err := c.begin(ctx); err != nil {
		return err
	}
	if c.edit != nil {
		defer c.edit.End()
	}

	// Hold the states, and keep objects that the plan stores from a gc.
	c.hold(c.now)
	stop := sync.OnceFunc(s.Importing())
	defer stop()

	if err := plan(c); err != nil {
		return err
	}
	if c.stored != nil {
		c.hold(c.stored)
	}
	stop()

	c.steps = graft.OwnRoot(c.steps)
	c.Changed, c.Paths, c.More = graft.Listed(c.steps)
	if c.DryRun || len(c.steps) == 0 && c.overlay == nil && c.record.Dir == "" {
		return nil
	}

	if c.stored != nil {
		if err := s.cas.Commit(); err != nil {
			return err
		}
	}
	err := c.journal(ctx)
	if err == nil {
		err = c.publish()
	}
	if err != nil {
		if c.record.State != "" {
			s.Abandon()
		}
		return err
	}

	c.edit.End()
	c.report()
	return nil
}

// begin takes the edit. A dry run reads the present state, and changes of the workspace go on.
func (c *change) begin(ctx context.Context) (err error) {
	if c.DryRun {
		var release func()
		c.now, release, err = c.w.Held("")
		c.held = append(c.held, release)
		return err
	}
	if c.edit, err = c.w.store.forest.As(c.caller.Actor).Edit(ctx, c.w.ws.View, c.reads...); err == nil {
		c.now = c.edit.Base()
	}
	return err
}

// hold keeps what a state refers to until the change has ended.
func (c *change) hold(st *tree.State) { c.held = append(c.held, c.w.store.Hold(st)) }

func (c *change) letGo() {
	for _, release := range c.held {
		release()
	}
}

// journal makes the steps in the edit. When it returns, all that the record refers to is on disk, but
// for the journal. Many steps are not written to the journal: the state that they lead to is sealed, which
// takes less memory. So is that of a refresh: recovery could not find the contents of the directory.
func (c *change) journal(ctx context.Context) (err error) {
	c.record.WS, c.record.Now, c.record.Answer = c.w.ws.View, c.graft.Now, c.answer()
	c.graft.Record = c.overlay == nil && len(c.steps) <= c.w.store.opt.ManyChanges && c.record.Dir == ""
	if !c.graft.Record {
		c.graft.Seal = func(st *tree.State) error { return c.seal(ctx, st) }
	}

	if c.overlay == nil {
		err = c.edit.Graft(ctx, c.steps, c.graft)
	} else if err = c.seal(ctx, c.now.Clone()); err == nil {
		err = c.edit.Overlay(ctx, c.overlay, c.graft)
	}
	if err != nil {
		return err
	}

	c.record.Steps, c.record.Depth = c.edit.Steps(), c.edit.Depth()
	c.record.SetActors(c.edit.Actors())
	if c.record.State == "" {
		return nil
	}
	c.record.NextIno = c.edit.Next()
	return c.w.store.cas.Commit()
}

// seal seals a state of the edit, of which the record has the id. No other root refers to the state
// before the record is in the catalogue, so the change holds it.
func (c *change) seal(ctx context.Context, st *tree.State) error {
	c.hold(st)
	id, err := c.w.store.seal.Edited(ctx, c.w.ws.View, st)
	c.record.State = id.String()
	return err
}

// answer returns the answer to a request of the kernel, nil if there is no request.
func (c *change) answer() *catalogue.EditAnswer {
	if c.caller.Request == 0 {
		return nil
	}
	a := &catalogue.EditAnswer{Of: c.from, Changed: c.Changed, Paths: c.Paths, More: c.More, Kept: c.kept}
	if len(a.Paths) > catalogue.MaxAnswerPaths {
		a.Paths, a.More = a.Paths[:catalogue.MaxAnswerPaths], true
	}
	return a
}

// publish journals the record and puts the edit in place, if check allows it.
func (c *change) publish() error {
	s := c.w.store
	t := &trees{s: s, edit: c.edit}
	if err := s.forest.Update(false, func(tx *live.Tx) error {
		t.Tx = tx
		if err := c.w.ws.Alive(); err != nil {
			return err
		}
		if c.check != nil {
			if err := c.check(); err != nil {
				return err
			}
		}
		// The undo point stays as it is when only times of directories differ.
		if c.Changed > 0 || c.overlay != nil {
			if err := c.describe(tx); err != nil {
				return err
			}
		}
		return t.commit(&c.record, c.caller)
	}); err != nil {
		return err
	}
	s.replaced(&t.inv)
	c.inv, c.Undo = t.inv, c.record.Pre.Name
	return nil
}

// describe puts the snapshots of the states before and after into the record.
func (c *change) describe(tx *live.Tx) error {
	now := c.w.store.opt.Now()
	before := CaptureOptions{Message: c.message, Caller: c.caller}.describe(now)
	var after *info.Info
	if c.after != nil {
		c.after.Caller = c.caller
		i := c.after.describe(now)
		after = &i
	}
	return c.w.store.cat.Describe(&c.record, tx, c.w.ws, before, after, c.edit.Actors().Actors(), c.undoes)
}

// report notifies the kernel, and writes the snapshots before and after and each changed path to the
// log.
func (c *change) report() {
	s := c.w.store
	s.tell(c.inv)
	event := func(e events.Event) {
		e.Workspace = c.w.ws.View
		s.event(e, c.caller)
	}
	if c.Undo == "" {
		return
	}
	event(events.Event{Action: "captured", From: c.Undo})
	for i := range c.steps {
		if step := &c.steps[i]; !graft.Trivial(step) {
			p := graft.PathChangeOf(*step)
			event(events.Event{Action: "restored", Path: p.Path, From: c.from, Size: step.Size, Detail: p.Action})
		}
	}
	if c.overlay != nil {
		err := c.overlay.Walk(context.Background(), s.src, func(step *graft.Step) error {
			p := graft.PathChangeOf(*step)
			event(events.Event{Action: p.Action, Path: path.Join(c.overlay.Prefix, p.Path), Size: step.Size})
			return nil
		})
		if err != nil {
			s.logger.Warn("writing to the log what an import changed", "err", err)
		}
	}
	if name := c.record.Post.Name; name != "" {
		event(events.Event{Action: "captured", From: name})
	}
}

// take makes a plan of a merge the plan of the change. It fails if conflicts are left.
func (c *change) take(p *threeway.Plan, steps []graft.Step) (err error) {
	c.conflicts, c.said = p.Conflicts, p.Said
	if err := p.Refused(); err != nil {
		return err
	}
	c.steps, c.graft.Now = steps, p.Now
	c.stored, err = p.Stored()
	return err
}

func (c *change) mergeResult() MergeResult { return MergeResult{c.conflicts, c.said, c.Changes} }
