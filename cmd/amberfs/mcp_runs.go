package main

import (
	"context"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
)

type runListArgs struct{}

type runList struct {
	Runs []runs.Run `json:"runs"`
}

type runApplyArgs struct {
	Name string `json:"name" jsonschema:"the run, by its name in run_list"`
	runs.Apply
}

type runRemoveArgs struct {
	Name string `json:"name" jsonschema:"the run, by its name in run_list"`
}

func listRunsTool(ctx context.Context, a *app, _ locate.Place, _ any, _ notifier) (any, error) {
	all, err := a.runs().All(ctx)
	return &runList{all}, err
}

func applyRunTool(ctx context.Context, a *app, _ locate.Place, args any, _ notifier) (any, error) {
	want := args.(runApplyArgs)
	var done *gitbridge.Applied
	err := a.onRun(ctx, want.Name, func(r *runs.Run, c *client.Client) (err error) {
		done, err = want.Do(ctx, c, *r, a.command)
		return err
	})
	if err != nil && done != nil && len(done.Conflicts) > 0 {
		err = fail.New(fail.KindOf(err), "%s; decide with ours, theirs or leave:\n%s", fail.Of(err).Msg, strings.Join(shorten(done.Conflicts), "\n"))
	}
	return done, err
}

func removeRunTool(ctx context.Context, a *app, _ locate.Place, args any, _ notifier) (any, error) {
	var removed runs.Run
	err := a.onRun(ctx, args.(runRemoveArgs).Name, func(r *runs.Run, _ *client.Client) error {
		removed = *r
		if err := r.Removable(); err != nil {
			return err
		}
		removed.State = service.RunRemoved
		return runs.Mark(ctx, a.command, r.Store, r.Name, r.Command, service.RunRemoved)
	})
	return &removed, err
}
