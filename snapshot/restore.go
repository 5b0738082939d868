package snapshot

import (
	"context"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

type RestoreOptions struct {
	Name   string            `json:"name" jsonschema:"the snapshot to restore"`
	Paths  []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories, relative to the workspace"`
	Keep   []naming.BytePath `json:"keep,omitempty" jsonschema:"paths that a restore of the whole workspace leaves as they are, in addition to restore_keeps of the policy"`
	DryRun bool              `json:"dry_run,omitempty" jsonschema:"change nothing, and return what would change"`
	// Edit, if set, returns the bytes that the one file of Paths gets, in place of those in
	// the snapshot. now is the present state.
	Edit   func(now *tree.State) ([]byte, error) `json:"-"`
	Caller actors.Caller                         `json:"-"`
	// List is charged with what the list of changes takes. If others leave too little,
	// everything begins again when all of it is free.
	List *budget.Charge `json:"-"`
}

// Changes are what a restore or a merge changed, or would change.
type Changes struct {
	Changed int                `json:"changed"`
	Paths   []graft.PathChange `json:"paths"`
	More    bool               `json:"more,omitempty" jsonschema:"more changed than paths names"`
	Undo    string             `json:"undo,omitempty" jsonschema:"the snapshot of the state before"`
	DryRun  bool               `json:"dry_run,omitempty"`
}

type RestoreResult struct {
	Snapshot string `json:"snapshot"`
	Changes
	Kept []string `json:"kept,omitempty" jsonschema:"paths that differ and were left as they are"`
}

// Restore makes the workspace, or some paths of it, equal to a snapshot. The
// state before is captured first.
func (w *Workspace) Restore(ctx context.Context, o RestoreOptions) (RestoreResult, error) {
	s := w.store
	start := time.Now()
	paths, err := naming.CleanPaths(o.Paths)
	if err != nil {
		return RestoreResult{}, err
	}
	keep, err := naming.CleanPaths(o.Keep)
	if err != nil {
		return RestoreResult{}, err
	}
	if len(o.Keep) > 0 && (len(keep) == 0 || len(paths) > 0) {
		return RestoreResult{}, errs.New(errs.Invalid, "malformed request: keep takes paths below the root, in a restore of the whole workspace")
	}
	to := &graft.Restore{Paths: paths}
	var sn *snap
	w.read(func() {
		if len(paths) == 0 {
			to.Keep = append(keep, w.ws.Policy.RestoreKeeps...)
		}
		if err = w.ws.Alive(); err != nil {
			return
		}
		if sn, err = s.cat.Find(w.ws, o.Name); err == nil {
			to.Snapshot, to.Like = sn.Name, w.ws.RestoredState(sn.View)
			to.State, err = sn.Tree(s.src)
		}
	})
	if err != nil {
		return RestoreResult{}, err
	}
	defer s.Hold(to.State)()
	if o.Edit != nil {
		defer s.Importing()()
	}
	out, err := retryWithWholeBudget(ctx, o.List, func() (outcome, error) { return w.restore(ctx, sn, to, o) })
	out.DryRun = o.DryRun
	res := RestoreResult{to.Snapshot, out.Changes, to.Kept}
	if err != nil || o.DryRun {
		return res, err
	}
	s.metrics.Note(func(m *info.Metrics) { m.Restores++; m.LastRestoreMs = info.MsSince(start) })
	out.report(w, to.Snapshot, o.Caller)
	return res, nil
}

// retryWithWholeBudget calls do, which takes memory of a budget for each difference. If other
// callers leave too little, it calls do again once the whole budget is free. It holds no lock
// meanwhile.
func retryWithWholeBudget(ctx context.Context, list *budget.Charge, do func() (outcome, error)) (outcome, error) {
	out, err := do()
	if err == nil || !list.Full() {
		return out, err
	}
	if err := list.All(ctx); err != nil {
		return out, err
	}
	return do()
}

// restore prepares the steps, and then journals and makes them in one step.
func (w *Workspace) restore(ctx context.Context, sn *snap, to *graft.Restore, o RestoreOptions) (out outcome, err error) {
	s := w.store
	c := change{w: w, stored: o.Edit != nil}
	var now *tree.State
	if o.DryRun {
		now, err = w.State()
	} else if c.edit, err = s.forest.As(o.Caller.Actor).Edit(ctx, w.ws.View); err == nil {
		defer c.edit.End()
		now = c.edit.Base()
	}
	if err != nil {
		return out, err
	}
	defer s.Hold(now)()
	if o.Edit == nil {
		c.steps, err = to.Steps(ctx, s.src, now, o.List)
	} else {
		e := graft.EditedFile{Objects: s.cas, Edit: o.Edit, DryRun: o.DryRun}
		c.steps, err = e.Steps(ctx, s.src, now, to.Paths)
	}
	if err != nil {
		return out, err
	}
	c.graft = live.Graft{Options: graft.Options{
		Now: time.Now().UnixNano(), Source: to.State, View: sn.View,
		Touch: len(to.Paths) > 0, Exact: len(to.Paths) == 0, KeepFull: len(to.Kept) > 0,
	}}
	if c.graft.Exact && len(to.Kept) == 0 {
		c.restored = sn.View
	}
	c.answer.Of, c.answer.Kept = to.Snapshot, to.Kept
	c.before = CaptureOptions{Message: "before restore of " + sn.Name, Caller: o.Caller}
	c.check = func() error {
		if s.cat.Snapshots[sn.View] != sn {
			return catalogue.RemovedMeanwhile(sn.Info)
		}
		return nil
	}
	return c.make(ctx)
}
