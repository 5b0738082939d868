package snapshot

import (
	"context"
	"fmt"
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
	// Edit, if not nil, returns new contents for the only file in Paths. The file gets these contents instead
	// of its contents in the snapshot. now is the present state.
	Edit   func(now *tree.State) ([]byte, error) `json:"-"`
	Caller actors.Caller                         `json:"-"`
	// ListCharge is charged with the memory for the list of changes. If other callers use too much of
	// that memory, the restore waits until all of it is free and begins again.
	ListCharge *budget.Charge `json:"-"`
}

// Changes lists the paths that a restore or a merge changed, or would change in a dry run.
type Changes struct {
	Changed int                `json:"changed"`
	Paths   []graft.PathChange `json:"paths"`
	More    bool               `json:"more,omitempty" jsonschema:"more changed than paths names"`
	Undo    string             `json:"undo,omitempty" jsonschema:"the snapshot of the state before"`
	DryRun  bool               `json:"dry_run,omitempty"`
}

// Shorten shortens the list to its first n paths. It does not change Changed.
func (c *Changes) Shorten(n int) { c.Paths = c.Paths[:min(len(c.Paths), n)] }

type RestoreResult struct {
	Snapshot string `json:"snapshot"`
	Changes
	Kept []string `json:"kept,omitempty" jsonschema:"paths that differ and were left as they are"`
}

// Restore makes the workspace, or some paths of it, equal to a snapshot. It makes a snapshot of the
// state before, whose name is in RestoreResult.Undo. Errors are catalogue.ErrNotFound and errors of
// package errs. If the options are wrong or nothing differs, nothing changes.
func (w *Workspace) Restore(ctx context.Context, o RestoreOptions) (RestoreResult, error) {
	start := time.Now()
	sn, to, err := w.findRestore(o)
	if err != nil {
		return RestoreResult{}, err
	}
	defer w.store.Hold(to.State)()

	args := change{name: "restore", caller: o.Caller, listCharge: o.ListCharge, sourceName: to.Snapshot, Changes: Changes{DryRun: o.DryRun}}
	c, err := w.change(ctx, args, func(c *change) (err error) {
		if o.Edit == nil {
			c.steps, err = to.Steps(ctx, w.store.src, c.present, o.ListCharge)
		} else {
			e := graft.EditedFile{Objects: w.store.cas, Edit: o.Edit, DryRun: o.DryRun}
			c.steps, err = e.Steps(ctx, w.store.src, c.present, to.Paths)
			c.newObjects = e.NewObjects
		}

		all := len(to.Paths) == 0
		c.graft.Options = graft.Options{
			Now: time.Now().UnixNano(), Source: to.State, View: sn.View, Touch: !all, Exact: all, KeepNonEmptyDirs: len(to.Kept) > 0,
		}
		if all && len(to.Kept) == 0 {
			c.record.RestoredView = sn.View
		}

		c.message, c.keptPaths = "before restore of "+to.Snapshot, to.Kept
		c.checkBeforePublish = func() error {
			if w.store.cat.Snapshots.At(sn.View) != sn {
				return catalogue.DeletedError(sn.Info)
			}
			return nil
		}

		return err
	})

	res := RestoreResult{to.Snapshot, c.Changes, to.Kept}
	if err != nil {
		return res, err
	}

	if !o.DryRun {
		w.store.parts.Metrics.Update(func(m *info.Metrics) { m.Restores++; m.LastRestoreMs = info.MsSince(start) })
	}

	return res, nil
}

// findRestore checks the options, finds the snapshot with its state, and returns the restore to plan.
func (w *Workspace) findRestore(o RestoreOptions) (sn *catalogue.Snapshot, to *graft.Restore, err error) {
	to = &graft.Restore{}
	if to.Paths, err = naming.CleanPaths(o.Paths); err != nil {
		return nil, nil, err
	}

	keep, err := naming.CleanPaths(o.Keep)
	if err != nil {
		return nil, nil, err
	}
	if len(o.Keep) > 0 && (len(keep) == 0 || len(to.Paths) > 0) {
		return nil, nil, errs.New(errs.Invalid, "malformed request: keep takes paths below the root, in a restore of the whole workspace")
	}

	w.withReadLock(func() {
		if len(to.Paths) == 0 {
			to.Keep = append(keep, w.ws.Policy.RestoreKeeps...)
		}
		to.Keep = append(to.Keep, w.ws.Policy.ReadOnly...)
		for _, p := range to.Paths {
			if naming.IsUnderAny(p, w.ws.Policy.ReadOnly) {
				err = fmt.Errorf("%s: %w", p, live.ErrProtected)
			}
		}
		if err != nil {
			return
		}

		if err = w.ws.CheckAlive(); err != nil {
			return
		}
		if sn, err = w.store.cat.Find(w.ws, o.Name); err != nil {
			return
		}

		to.Snapshot, to.Renumbered = sn.Name, w.ws.RestoredState(sn.View)
		to.State, err = sn.Tree(w.store.src)
	})

	return sn, to, err
}
