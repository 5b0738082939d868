package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

func refreshCommand(a *app) *cobra.Command {
	var req service.Refresh
	var run string
	cmd := &cobra.Command{
		Use:   "refresh [DIR] [--run NAME] [--ours|--theirs|--prefer SIDE] [--merge] [--dry-run]",
		Short: "Bring in changes from the directory",
		Long: `Merges into the workspace what changed in DIR since it was copied or refreshed last.

Text that both changed is merged by lines. Conflicts are listed, and then nothing is
changed. --ours (--prefer run) keeps what the run or workspace has, and --theirs (--prefer
dir) takes what DIR has. "amberfs undo" undoes the refresh.

A branch of git that moved on both sides stays, and amberfs/dir/BRANCH gets the commits of
DIR. --merge merges them, as "git merge" does. At a terminal, refresh asks about branches
and conflicts.`,
		Example: `  amberfs refresh
  amberfs refresh --run project-1 --theirs`,
		Args: argumentCountCheck(0, 1, "perhaps a DIR"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return runRefresh(cmd.Context(), a, run, strings.Join(argv, ""), req)
		},
	}

	cmd.Flags().StringVar(&run, "run", "", "refresh the run `NAME`")
	cmd.Flags().BoolVar(&req.Ours, "ours", false, "keep the workspace's version of conflicting paths")
	cmd.Flags().BoolVar(&req.Theirs, "theirs", false, "take DIR's version of conflicting paths")
	addPreferFlag(cmd, &req.Ours, &req.Theirs, []string{sideRun, sideWorkspace, sideFork}, []string{sideDir})
	cmd.Flags().BoolVar(&req.Merge, "merge", false, "merge a checked-out branch of git that moved on both sides")
	cmd.Flags().BoolVarP(&req.DryRun, "dry-run", "n", false, "only list what would change")

	return cmd
}

// runRefresh refreshes a run or, if the name is "", the workspace. It takes the changes from a directory, by default
// the directory that the workspace was filled from.
func runRefresh(ctx context.Context, a *app, run, dir string, req service.Refresh) error {
	if run != "" {
		return withRun(ctx, a, "", run, func(r *runs.Run, c *client.Client) error {
			return refreshWorkspace(ctx, a, c, r.Dir, r.Store, req)
		})
	}

	p, c, err := a.openClientHere(ctx)
	if err != nil {
		return err
	}
	defer c.Close()

	if dir != "" {
		if dir, err = a.absPath(dir); err != nil {
			return err
		}
	}
	if dir, err = sourceDirectory(p, dir); err != nil {
		return err
	}

	return refreshWorkspace(ctx, a, c, dir, p.Store, req)
}

// sourceDirectory returns dir or, for "", the directory that a workspace was filled from. It fails for a directory in
// the workspace.
func sourceDirectory(p locate.Location, dir string) (string, error) {
	if dir == "" {
		from, err := storedir.FilledSource(p.Store)
		if err != nil || from == "" {
			return "", errs.Fail(errs.Invalid, "the workspace was not filled from a directory").WithHint("name the DIR")
		}
		dir = from
	}

	return dir, checkOutsideWorkspace(p, dir)
}

// checkOutsideWorkspace returns an error for a directory that is in the workspace.
func checkOutsideWorkspace(p locate.Location, dir string) error {
	line := applyCommandLine(p.Store, strings.Join(p.Workspace, "/"), dir, "")
	if _, ok := runs.SourceDir(p.Store); ok && len(p.Workspace) > 0 {
		line = "amberfs apply --run " + p.Workspace[0]
	}
	return runs.CheckOutsideWorkspaces(p.Store, dir, "leave the run, and use `"+line+"`")
}

func refreshWorkspace(ctx context.Context, a *app, c *client.Client, dir, store string, req service.Refresh) error {
	done, err := refreshResolvingConflicts(ctx, a, c, "the workspace", dir, store, req, runs.RefreshFilter{})
	if err != nil && len(done.Conflicts) > 0 {
		return a.printFailed(done, err, func() { printPaths(a, done.Conflicts) })
	}
	if err != nil {
		return err
	}

	return a.print(done, func() {
		paths, inGit := withoutGit(a, done.Paths)
		a.printf("%s", service.ChangedText("refreshed", "would refresh", done.DryRun, "from "+quote(dir), done.Changed, done.Changed, a.cutList(paths), inGit)+service.GitText(done.Git))
	})
}

// refreshResolvingConflicts is refreshFrom with questions about conflicts. ours is the name of the workspace in the
// questions.
func refreshResolvingConflicts(ctx context.Context, a *app, c *client.Client, ours, dir, store string, req service.Refresh, filter runs.RefreshFilter) (result service.Refreshed, err error) {
	req.RefuseDiverged = a.resolvesConflicts() && !req.DryRun
	err = mergeResolvingConflicts(ctx, a, ours, dir, func(rules map[string]threeway.Rule) (*snapshot.MergeResult, error) {
		req.Resolve = rules
		var err error
		result, err = refreshFrom(ctx, a, c, dir, store, req, filter)
		return &result.MergeResult, err
	})

	return result, err
}

// refreshFrom sends the changes of a directory to a workspace, except for the paths in filter.
func refreshFrom(ctx context.Context, a *app, c *client.Client, dir, store string, req service.Refresh, filter runs.RefreshFilter) (service.Refreshed, error) {
	bar := a.newProgress()
	defer bar.done()

	result, left, err := runs.Refresh(ctx, c, dir, store, req, bar.show, filter)
	bar.done()
	if text := left.Describe(quote(dir)); text != "" && !req.DryRun {
		a.note("%s", text)
	}

	return result, err
}
