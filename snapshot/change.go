package snapshot

import (
	"context"
	"fmt"
	"path"
	"sync"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A change is one atomic change of a workspace: a restore, a merge, a refresh, an import or an undo of an actor.
// The caller of Workspace.change sets the fields from readViews to sourceName, and the function plan sets
// changePlan.
type change struct {
	w          *Workspace
	readViews  []uint32 // views of other workspaces that plan reads; these workspaces cannot be changed until the edit ends
	caller     actors.Caller
	listCharge *budget.Charge // see RestoreOptions.ListCharge
	name       string         // name of the operation
	undoes     uint64         // the number of the operation that this change undoes
	sourceName string         // name of the snapshot, fork, actor or directory with the new contents

	present  *tree.State // the present state, which plan reads
	edit     *live.Edit  // nil for a dry run
	releases []func()    // each releases a state that the change holds, see end

	changePlan
	Changes
	invalidation live.Invalidation
}

// A changePlan has the steps of a change and the descriptions of the snapshots that it makes.
type changePlan struct {
	steps              []graft.Step
	overlay            *graft.Overlay // for an import, which has no steps
	graft              live.GraftOptions
	newObjects         *tree.State          // a tree with the new objects that only the steps use; nil: no new objects
	record             catalogue.Edit       // plan sets RestoredView and DirState
	keptPaths          []string             // paths that differ from the source and are not changed
	message            string               // message of the snapshot of the state before
	snapshotAfter      *CaptureOptions      // makes a snapshot of the state after the change; nil: no snapshot
	actorUndo          *catalogue.ActorUndo // for an undo of an actor: the actor and the intervals
	checkBeforePublish func() error         // called with the lock of the forest held before the change is published; may be nil

	conflicts    []string
	hidden       []string // see MergeResult.Hidden
	repositories []threeway.Repository
}

// change makes one change of the workspace. It calls plan without a lock held. If the memory for lists of steps is
// in use by other callers, it waits until all of that memory is free, and begins again with the unchanged args. The
// result is never nil.
func (w *Workspace) change(ctx context.Context, args change, plan func(*change) error) (*change, error) {
	args.w, args.Paths = w, []graft.PathChange{}
	c := args
	err := c.run(ctx, plan)
	if err == nil || !args.listCharge.TryFailed() {
		return &c, err
	}

	if err := args.listCharge.RemoveLimit(ctx); err != nil {
		return &c, err
	}

	c = args
	err = c.run(ctx, plan)
	return &c, err
}

// run does the steps of a change in their only correct order.
func (c *change) run(ctx context.Context, plan func(*change) error) error {
	defer c.end()

	changes, err := c.prepare(ctx, plan)
	if err != nil || !changes {
		return err
	}
	if err := c.publish(); err != nil {
		c.abandonResult()
		return err
	}

	c.edit.End()
	c.report()

	return nil
}

// prepare begins the edit, plans the change, and applies it to the edit. It does not write the record. changes is
// false if there is nothing to publish. The caller calls end, also after an error.
func (c *change) prepare(ctx context.Context, plan func(*change) error) (changes bool, err error) {
	s := c.w.store
	if !c.DryRun {
		if c.record.Placeholders, err = c.w.placeholders(c.caller); err != nil {
			return false, err
		}
	}
	if err := c.beginEdit(ctx); err != nil {
		return false, err
	}

	// Protect the states, and the objects that plan stores, from gc.
	c.holdState(c.present)
	stop := sync.OnceFunc(s.BeginImport())
	defer stop()

	if err := plan(c); err != nil {
		return false, err
	}
	if c.newObjects != nil {
		c.holdState(c.newObjects)
	}

	stop()

	c.steps = graft.WithoutRootOwner(c.steps)
	if err := c.checkReadOnly(ctx); err != nil {
		return false, err
	}
	c.Changed, c.Paths, c.More = graft.ListChanges(c.steps)
	if c.DryRun || len(c.steps) == 0 && c.overlay == nil && c.record.DirState == "" {
		return false, nil
	}

	if c.newObjects != nil {
		if err := s.cas.Commit(); err != nil {
			return false, err
		}
	}

	if err := c.applyAndJournal(ctx); err != nil {
		c.abandonResult()
		return false, err
	}

	return true, nil
}

// abandonResult is called for a change that will not be published. If its result was sealed, the objects of
// the result are garbage, and gc runs soon.
func (c *change) abandonResult() {
	if c.record.State != "" {
		c.w.store.CollectSoon()
	}
}

// end ends the edit, and then releases the states from which the edit reads inodes. It may be called twice.
func (c *change) end() {
	if c.edit != nil {
		c.edit.End()
	}
	for _, release := range c.releases {
		release()
	}
	c.releases = nil
}

// checkReadOnly returns live.ErrProtected if a step changes a read-only path. A refresh may change read-only
// paths.
func (c *change) checkReadOnly(ctx context.Context) error {
	readOnly := c.w.Policy().ReadOnly
	if len(readOnly) == 0 || c.record.DirState != "" {
		return nil
	}

	check := func(step *graft.Step, prefix string) error {
		p := path.Join(prefix, step.Path.String())
		for _, r := range readOnly {
			above := step.WasDir && !step.IsDir && naming.IsUnder(r, p)
			if above || naming.IsUnder(p, r) && !graft.IsTrivial(step) {
				return fmt.Errorf("%s: %w", p, live.ErrProtected)
			}
		}
		return nil
	}

	if c.overlay != nil {
		return c.overlay.Walk(ctx, c.w.store.src, func(step *graft.Step) error { return check(step, c.overlay.Prefix) })
	}
	for i := range c.steps {
		if err := check(&c.steps[i], ""); err != nil {
			return err
		}
	}

	return nil
}

// beginEdit begins the edit, which blocks other changes of the workspace. For a dry run it only protects the
// present state from gc, and does not block changes.
func (c *change) beginEdit(ctx context.Context) (err error) {
	if c.DryRun {
		var release func()
		c.present, release, err = c.w.HoldState("")
		c.releases = append(c.releases, release)
		return err
	}

	if c.edit, err = c.w.store.forest.Edit(ctx, c.caller.Actor, c.w.ws.View, c.readViews...); err != nil {
		return err
	}

	c.present = c.edit.Base()
	return nil
}

// holdState holds a state (see Store.Hold) until the change has ended.
func (c *change) holdState(st *tree.State) { c.releases = append(c.releases, c.w.store.Hold(st)) }

// applyAndJournal applies the steps to the edit and writes them to the journal. If there are very many
// steps, it seals the resulting state instead, which needs less memory. It also seals the result of a
// refresh, because recovery could not read the contents of the directory again. When applyAndJournal
// returns, all objects that the record references are on disk; the journal may not be synced yet.
func (c *change) applyAndJournal(ctx context.Context) (err error) {
	c.record.WS, c.record.Time, c.record.Answer = c.w.ws.View, c.graft.Now, c.answer()
	c.graft.RecordSteps = c.overlay == nil && len(c.steps) <= c.w.store.opt.MaxJournaledSteps && c.record.DirState == ""
	if !c.graft.RecordSteps {
		c.graft.Seal = func(st *tree.State) error { return c.seal(ctx, st) }
	}

	if err := c.apply(ctx); err != nil {
		return err
	}

	c.record.Steps, c.record.Depth = c.edit.Steps(), c.edit.Depth()
	c.record.SetActors(c.edit.Actors())
	if c.record.State == "" {
		return nil
	}

	c.record.NextIno = c.edit.NextIno()
	return c.w.store.cas.Commit()
}

// apply applies the steps, or the overlay of an import, to the edit.
func (c *change) apply(ctx context.Context) error {
	if c.overlay == nil {
		return c.edit.Graft(ctx, c.steps, c.graft)
	}
	if err := c.seal(ctx, c.present.Clone()); err != nil {
		return err
	}

	return c.edit.Overlay(ctx, c.overlay, c.graft)
}

// seal seals the state of the edit and puts its id into the record. The change holds the state, because gc does
// not know the state before the record is in the catalogue.
func (c *change) seal(ctx context.Context, st *tree.State) error {
	c.holdState(st)
	id, err := c.w.store.sealer.SealEdited(ctx, c.w.ws.View, st)
	c.record.State = id.String()
	return err
}

// answer returns the answer to the kernel's request for this change. The change's record contains this answer: if
// this daemon dies, the next daemon sends it to the kernel. answer returns nil for a change that was not requested
// through the kernel.
func (c *change) answer() *catalogue.EditAnswer {
	if c.caller.Request == 0 {
		return nil
	}
	a := &catalogue.EditAnswer{Target: c.sourceName, Changed: c.Changed, Paths: c.Paths, More: c.More, Kept: c.keptPaths}
	if len(a.Paths) > catalogue.MaxAnswerPaths {
		a.Paths, a.More = a.Paths[:catalogue.MaxAnswerPaths], true
	}

	return a
}

// publish writes the record to the journal and makes the edited state the present one, unless
// changePlan.checkBeforePublish fails.
func (c *change) publish() error {
	s := c.w.store
	var t *applier
	if err := s.forest.Update(false, func(tx *live.Tx) error {
		t = s.applier(tx)
		t.edits = map[uint32]*live.Edit{c.w.ws.View: c.edit}
		if err := c.w.ws.CheckAlive(); err != nil {
			return err
		}

		if c.checkBeforePublish != nil {
			if err := c.checkBeforePublish(); err != nil {
				return err
			}
		}

		// If only the times of directories change, no snapshot of the state before is made.
		if c.Changed > 0 || c.overlay != nil {
			if err := c.describeSnapshots(tx); err != nil {
				return err
			}
		}

		return t.commit(&c.record, c.caller)
	}); err != nil {
		return err
	}

	s.Hooks.notifyReplaced(&t.invalidations[0])
	c.invalidation, c.Undo = t.invalidations[0], c.record.Pre.Name

	return nil
}

// describeSnapshots puts the snapshots of the states before and after into the record.
func (c *change) describeSnapshots(tx *live.Tx) error {
	now := c.w.store.opt.Now()
	c.record.Pre = CaptureOptions{Message: c.message, Caller: c.caller}.describe(now)
	if c.snapshotAfter != nil {
		c.snapshotAfter.Caller = c.caller
		c.record.Post = c.snapshotAfter.describe(now)
	}

	cat := c.w.store.cat
	if err := c.record.PlaceSnapshots(cat, tx, c.w.ws, c.snapshotAfter != nil, c.edit.Actors().Actors(), c.actorUndo); err != nil {
		return err
	}

	op := c.w.Ops().newOp(c.name, c.sourceName, c.caller)
	op.BeforeView, op.Undoes, c.record.Op = c.record.Pre.View, c.undoes, op
	if !cat.MayKeep(c.w.ws, nil, nil) {
		return nil
	}

	view, err := tx.NewView()
	op.Kept = []uint32{view}

	return err
}

// report notifies the kernel, and emits events for the snapshots before and after and for each
// changed path.
func (c *change) report() {
	s := c.w.store
	s.Hooks.notifyKernel(s.forest, c.invalidation)
	event := func(e events.Event) {
		e.Workspace = c.w.ws.View
		s.Hooks.emit(e, c.caller)
	}
	if c.Undo == "" {
		return
	}

	event(events.Event{Action: "captured", From: c.Undo})

	for i := range c.steps {
		if step := &c.steps[i]; !graft.IsTrivial(step) {
			p := graft.PathChangeOf(*step)
			event(events.Event{Action: "restored", Path: p.Path, From: c.sourceName, Size: step.Size, Detail: p.Action})
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

// usePlan copies the result of a merge plan into the change. It fails if the plan has conflicts that no rule
// decides.
func (c *change) usePlan(p *threeway.Plan, steps []graft.Step) (err error) {
	c.conflicts, c.repositories = p.Conflicts, p.Repositories
	if err := p.ConflictError(); err != nil {
		return err
	}

	c.steps, c.graft.Now = steps, p.Now
	c.newObjects, err = p.Stored()
	return err
}

func (c *change) mergeResult() MergeResult {
	return MergeResult{c.conflicts, c.repositories, c.hidden, c.Changes}
}
