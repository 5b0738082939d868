package main

import (
	"context"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
)

type runList struct {
	Runs []runs.Run `json:"runs"`
}

// runArgs has the arguments of all tools for runs. Each tool takes some of them.
type runArgs struct {
	Name string `json:"name" jsonschema:"the run, by its name in run_list"`
	runs.Apply
}

func listRunsTool(ctx context.Context, a *app, _ locate.Location, _ any, _ notifyFunc) (any, error) {
	dir, err := serverDir(a)
	if err != nil {
		return nil, err
	}

	all, err := runFinder(a).ListAll(ctx)
	all = slices.DeleteFunc(all, func(r runs.Run) bool { return !r.Covers(dir) })
	return &runList{all}, err
}

// serverDir returns the directory of the server. The server lists and changes only the runs of this directory.
func serverDir(a *app) (string, error) { return resolvePath(a.commandDir()) }

// withRunHere does what withRun does, but fails for a run of another directory than the server's.
func withRunHere(ctx context.Context, a *app, name string, fn func(r *runs.Run, c *client.Client) error) error {
	dir, err := serverDir(a)
	if err != nil {
		return err
	}
	return withRun(ctx, a, "", name, func(r *runs.Run, c *client.Client) error {
		if !r.Covers(dir) {
			return errs.Fail(errs.Perm, "%s is a run of %s, and this server is for %s", name, quote(r.Dir), quote(dir))
		}
		return fn(r, c)
	})
}

func applyRunTool(ctx context.Context, a *app, _ locate.Location, args any, _ notifyFunc) (any, error) {
	want := args.(runArgs)
	var done *hostdir.ApplyResult
	err := withRunHere(ctx, a, want.Name, func(r *runs.Run, c *client.Client) (err error) {
		done, err = want.Do(ctx, runFinder(a), c, r)
		return err
	})
	if err != nil && done != nil && len(done.Conflicts) > 0 {
		err = errs.Fail(errs.ScriptKind(err), "%s; decide with ours, theirs or leave:\n%s", errs.ErrorOf(err).Msg, strings.Join(cutToListed(done.Conflicts), "\n"))
	}

	return done, err
}

func removeRunTool(ctx context.Context, a *app, _ locate.Location, args any, _ notifyFunc) (any, error) {
	var removed runs.Run
	name := args.(runArgs).Name
	if err := withRunHere(ctx, a, name, func(r *runs.Run, _ *client.Client) error { removed = *r; return nil }); err != nil {
		return nil, err
	}

	removed.State = service.RunRemoved
	return &removed, markGroup(ctx, a, removed.Dir, name, service.RunRemoved)
}
