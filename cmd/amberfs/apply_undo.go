package main

import (
	"context"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// undoApply undoes the last apply of the named run. Without a name, it undoes the last apply of the workspace.
// Outside of a mount, it undoes the last apply of one of the directory's runs: the run that was applied last.
func undoApply(ctx context.Context, a *app, run string, ask askMode, o hostdir.ApplyOptions) error {
	p, err := a.location()
	undo := func(r *runs.Run, c *client.Client) error {
		members, err := runs.GroupMembers(r.Store, r.Name)
		if err != nil {
			return err
		}
		if len(members) == 0 {
			return undoNumberedApply(ctx, a, c, r, 0, ask, o, false)
		}
		return runFinder(a).WithGroup(ctx, r, c, func(parts []*runs.Part) error { return undoParts(ctx, a, parts, ask, o) })
	}
	if run != "" {
		return withRun(ctx, a, "", run, undo)
	}

	if err != nil {
		dir, err := a.commandDir()
		if err != nil {
			return err
		}
		return runFinder(a).WithLastApplied(ctx, dir, undo)
	}

	c, err := a.openClient(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()

	return undoNumberedApply(ctx, a, c, &runs.Run{Name: strings.Join(p.Workspace, "-")}, 0, ask, o, false)
}

// undoNumberedApply undoes the apply with the given number or, if the number is 0, the last apply. r has no store if
// the workspace is not a run. If partial is set, the user has chosen only some of the changes (o.Choose), and the
// apply does not count as undone.
func undoNumberedApply(ctx context.Context, a *app, c *client.Client, r *runs.Run, number uint64, ask askMode, o hostdir.ApplyOptions, partial bool) error {
	subject := "the workspace"
	if r.Store != "" {
		subject = "the run " + r.Name
	}

	op, err := runs.FindApply(ctx, c, number, subject)
	if err != nil {
		return err
	}
	if err := r.CheckApplicable(op.Of); r.Store != "" && err != nil {
		return err
	}

	o.WorkspaceName, o.BaseFromDir, o.Everything = r.Name, op.Of == r.Dir, true
	err = runs.UndoApply(ctx, c, op, o.DryRun, func(changes *client.Changes) (bool, error) {
		q, done, err := applyChanges(ctx, a, changes, op.Of, ask, o)
		if done == nil {
			return err == nil && q != nil && q.Empty(), err
		}
		return !o.DryRun && !partial && (q == nil || !q.HasUnapplied), a.print(done, func() { a.printf("%s", appliedLines(a, done)) })
	})
	if err != nil || o.DryRun || partial {
		return err
	}

	return r.MarkKept(ctx, c)
}

// undoOp undoes the operation with the number in req, or the last operation if the number is 0. If the last operation
// is an edit of the workspace, a restore undoes it. An apply is undone by this process, and any other operation by the
// daemon.
func undoOp(ctx context.Context, a *app, p locate.Location, req service.UndoOp, g *service.ParsedLine) error {
	var l service.OpList
	if err := a.call(ctx, p, service.ListOps{}, &l); err != nil {
		return err
	}

	i := slices.IndexFunc(l.Ops, func(op service.OpState) bool {
		if req.Number == 0 {
			return !op.Undone && (op.Undoes == 0 || op.Edit)
		}
		return op.Number == req.Number
	})

	var args any = req
	switch {
	case i < 0 && req.Number > 0: // the daemon gets req, and reports that there is no such operation
	case i < 0 || req.Number == 0 && l.Ops[i].Edit:
		args = service.UndoRestore(nil, req.DryRun)
	default:
		if req.Number = l.Ops[i].Number; l.Ops[i].Name == catalogue.OpApply {
			return undoWorkspaceApply(ctx, a, p, req, g.IsSet("yes"))
		}
		args = req
	}

	return showOp(ctx, a, p, args, &service.Command{}, g)
}

// undoWorkspaceApply undoes an apply of a workspace that is not a run.
func undoWorkspaceApply(ctx context.Context, a *app, p locate.Location, req service.UndoOp, yes bool) error {
	rule, err := threeway.RuleOf(req.Ours, req.Theirs)
	if err != nil {
		return err
	}

	c, err := a.openClient(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()

	ask := askForApply
	if yes || req.DryRun {
		ask = askNever
	}

	r := &runs.Run{Name: strings.Join(p.Workspace, "-")}
	return undoNumberedApply(ctx, a, c, r, req.Number, ask, hostdir.ApplyOptions{ConflictRule: rule, DryRun: req.DryRun}, false)
}
