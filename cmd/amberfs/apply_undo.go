package main

import (
	"context"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
)

// undoApply undoes the last apply of a run or, in a mount and without a run, of the workspace.
func (a *app) undoApply(ctx context.Context, run string, ask asking, o hostdir.ApplyOptions) error {
	p, err := a.location()
	undo := func(r *runs.Run, c *client.Client) error { return a.undoApplyOf(ctx, c, r, 0, ask, o) }
	if run != "" {
		return a.onRun(ctx, "", run, undo)
	}

	if err != nil {
		dir, err := a.cwd()
		if err != nil {
			return err
		}
		return a.runs().OnApplied(ctx, dir, undo)
	}

	c, err := a.open(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()

	return a.undoApplyOf(ctx, c, &runs.Run{Name: strings.Join(p.Workspace, "-")}, 0, ask, o)
}

// undoApplyOf undoes the apply with a number, or the last one. r has no store if it is no run.
func (a *app) undoApplyOf(ctx context.Context, c *client.Client, r *runs.Run, number uint64, ask asking, o hostdir.ApplyOptions) error {
	what := "the workspace"
	if r.Store != "" {
		what = "the run " + r.Name
	}

	op, err := runs.ToUndo(ctx, c, number, what)
	if err != nil {
		return err
	}
	if err := r.Applicable(op.Of); r.Store != "" && err != nil {
		return err
	}

	o.Name, o.Own, o.Everything = r.Name, op.Of == r.Dir, true
	err = runs.UndoApply(ctx, c, op, o.DryRun, func(ch *client.Changes) (bool, error) {
		q, done, err := a.applyChanges(ctx, ch, op.Of, ask, o)
		if done == nil {
			return err == nil && q != nil && q.Empty(), err
		}
		return !o.DryRun && (q == nil || !q.Left), a.print(done, func() { a.printf("%s", a.appliedLines(done)) })
	})
	if err != nil || o.DryRun || r.State != service.RunApplied {
		return err
	}

	return r.Unapplied(ctx, c)
}
