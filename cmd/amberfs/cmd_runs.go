package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/question"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

func runsCommand(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "runs [--all]",
		Short: "List the runs of directories",
		Long: `Lists what "amberfs run" keeps: name, directory, age, state (running, kept or applied),
changed files and unshared bytes.

The runs of a directory share a copy of it, which has a line of its own (state copy, and
the size of the whole store). Removing the last run removes it.

Runs that are applied or unchanged are removed 14 days after their last use, when "run" or
"runs" starts. All others are kept until you remove them.

Runs are below $XDG_STATE_HOME/amberfs/runs (AMBERFS_RUNS). All runs of a directory are
forks in one store.`,
		Example: `  amberfs runs
  amberfs runs diff project-1
  amberfs apply --run project-1`,
		Args: argumentCountCheck(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return listRuns(cmd.Context(), a, all) },
	}

	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that were removed within a day")

	for _, c := range []*cobra.Command{runsDiffCommand(a), runsRemoveCommand(a), runsRestoreCommand(a), runsPruneCommand(a)} {
		c.DisableFlagsInUseLine = true
		cmd.AddCommand(c)
	}

	return cmd
}

// listRuns prints the runs. If withRemoved is set, it also prints the runs that were removed less than a day ago.
func listRuns(ctx context.Context, a *app, withRemoved bool) error {
	rows, copies, err := runFinder(a).ListWithCopies(ctx)
	if err != nil {
		return err
	}
	if !withRemoved {
		rows = slices.DeleteFunc(rows, func(r runs.Run) bool { return r.State == service.RunRemoved })
	}

	return a.print(append(rows, copies...), func() { a.printRows(runRows(rows, copies)) })
}

func runRows(listed, copies []runs.Run) [][]string {
	var out [][]string
	if len(listed) == 0 {
		out = append(out, []string{"no runs"})
	}

	for _, r := range append(listed, copies...) {
		changed := plural(r.Changed, "file", "files")
		if r.CountIncomplete {
			changed = "at least " + changed
		}
		if r.InGit > 0 {
			changed += " and git"
		}

		dir := quote(r.Dir)
		if r.DirGone {
			dir += " (gone)"
		}

		name := r.Name
		if r.State == runs.CopyState {
			name, changed = "-", plural(r.Runs, "run", "runs")
		}

		out = append(out, []string{name, dir, humanize.Time(r.LastUsed), r.State, changed, service.BytesText(r.Bytes)})
	}

	return out
}

func runsDiffCommand(a *app) *cobra.Command {
	var stat bool
	cmd := &cobra.Command{
		Use:   "diff [NAME] [--stat]",
		Short: "Show what a run changed",
		Long: `Shows what the run NAME, or the newest of the working directory, changed, as "git diff"
does.`,
		Example: `  amberfs runs diff project-1`,
		Args:    argumentCountCheck(0, 1, "perhaps a NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return diffRun(cmd.Context(), a, strings.Join(argv, ""), stat)
		},
	}

	cmd.Flags().BoolVar(&stat, "stat", false, "only count the changed lines of each file")
	return cmd
}

// diffRun prints the changes of a run. If stat is set, it prints only the numbers of changed lines of each file.
func diffRun(ctx context.Context, a *app, name string, stat bool) error {
	return withEachRun(ctx, a, name, func(_ *runs.Run, c *client.Client) error {
		ch, err := c.Changes(ctx, "")
		if err != nil {
			return err
		}
		defer ch.Close()

		if stat {
			return diff.Stat(ctx, a.stdout, ch.Source, ch.Base, ch.Now, diff.Options{})
		}

		out := &diffWriter{a: a}
		err = diff.Write(ctx, out, ch.Source, ch.Base, ch.Now, diff.Options{})
		return cmp.Or(err, out.flush())
	})
}

func runsRemoveCommand(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rm NAME... [--yes]",
		Short: "Remove runs",
		Long: `Removes runs. At a terminal, it shows what each changed and asks. Elsewhere it needs
--yes. For a day, "amberfs runs restore NAME" restores a run.`,
		Example: `  amberfs runs rm project-1`,
		Args:    argumentCountCheck(1, -1, "NAMEs of runs"),
		RunE:    func(cmd *cobra.Command, argv []string) error { return removeRuns(cmd.Context(), a, argv, yes) },
	}

	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// removeRuns removes runs, each after a question unless yes is set.
func removeRuns(ctx context.Context, a *app, names []string, yes bool) error {
	for _, name := range names {
		if err := withEachRun(ctx, a, name, func(r *runs.Run, c *client.Client) error {
			if err := r.CheckRemovable(); err != nil {
				return err
			}
			if !yes && !a.canAsk() {
				return cannotAskError("use --yes")
			}

			if !yes {
				if confirmed, err := askRemoval(ctx, a, r, c); err != nil || !confirmed {
					return err
				}
			}

			return markRunRemoved(ctx, a, r.Store, r.Name)
		}); err != nil {
			return err
		}
	}

	return nil
}

// askRemoval asks the user whether to remove a run.
func askRemoval(ctx context.Context, a *app, r *runs.Run, c *client.Client) (bool, error) {
	ch, err := c.Changes(ctx, "")
	if err != nil {
		return false, err
	}
	defer ch.Close()

	summary := plural(r.Changed, "changed file", "changed files")
	if plan, _ := applyTo(ctx, a, ch, r.Dir, hostdir.ApplyOptions{DryRun: true}); plan != nil {
		q := question.New(a.questionTerminal(), ch, r.Dir, threeway.RefuseConflicts, plan)
		summary = strings.Join(append([]string{q.Summary()}, q.Commits()...), "\n")
	}

	return question.AskYesNo(ctx, a.questionTerminal(), fmt.Sprintf("remove the run %s, %s, %s? [y/N]: ", r.Name, r.State, summary))
}

// markRunRemoved marks a run as removed. It is deleted a day later.
func markRunRemoved(ctx context.Context, a *app, store, name string) error {
	r, err := runs.FindRun(ctx, store, name, a.command)
	if err != nil {
		return err
	}
	if err := r.CheckRemovable(); err != nil { // the run may have been resumed during the question
		return err
	}
	if err := runs.MarkState(ctx, a.command, store, name, "", service.RunRemoved); err != nil {
		return err
	}

	a.note("the run %s is removed\n\tit was a run of %s\n\tfor a day it can be had back: amberfs runs restore %s", name, quote(r.Dir), name)
	return nil
}

func runsRestoreCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "restore NAME",
		Short:   "Bring back a removed run",
		Long:    `Restores a run that was removed less than a day ago.`,
		Example: `  amberfs runs restore project-1`,
		Args:    argumentCountCheck(1, 1, "one NAME"),
		RunE:    func(cmd *cobra.Command, argv []string) error { return restoreRun(cmd.Context(), a, argv[0]) },
	}
}

// restoreRun marks a removed run as kept.
func restoreRun(ctx context.Context, a *app, name string) error {
	return withEachRun(ctx, a, name, func(r *runs.Run, _ *client.Client) error {
		if r.State != service.RunRemoved {
			return errs.Fail(errs.Exist, "the run %s was not removed", r.Name)
		}
		if err := runs.MarkState(ctx, a.command, r.Store, r.Name, r.Command, service.RunKept); err != nil {
			return err
		}

		a.printf("the run %s is kept\n", r.Name)
		return nil
	})
}

func runsPruneCommand(a *app) *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:   "prune [--yes] [--dry-run]",
		Short: "Remove the runs that are applied, and copies without runs",
		Long: `Deletes runs that are applied, unchanged or removed, and stores without runs. It lists
them with the space that each frees. At a terminal, it asks.`,
		Example: `  amberfs runs prune`,
		Args:    argumentCountCheck(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes && !dryRun && !a.canAsk() {
				return cannotAskError("use --yes, or --dry-run")
			}
			return pruneRuns(cmd.Context(), a, yes, dryRun)
		},
	}

	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only print what would be removed")

	return cmd
}

func pruneRuns(ctx context.Context, a *app, yes, dryRun bool) error {
	p, err := runFinder(a).Prunable(ctx)
	if err != nil {
		return err
	}

	p.DryRun = dryRun
	changesAnything := !dryRun && !p.Empty()
	if changesAnything && !yes {
		dry := p
		dry.DryRun = true
		fmt.Fprint(a.stderr, pruneText(dry))
		if confirmed, err := question.AskYesNo(ctx, a.questionTerminal(), "remove them? [y/N]: "); err != nil || !confirmed {
			return err
		}
	}
	if changesAnything {
		if p, err = runFinder(a).Prune(ctx, p); err != nil {
			return err
		}
	}

	return a.print(p, func() { a.printf("%s", pruneText(p)) })
}

func pruneText(p runs.PruneList) string {
	if p.Empty() {
		return "nothing to remove\n"
	}
	removed, freed := "removed", "freed"
	if p.DryRun {
		removed, freed = "to remove:", "to free"
	}

	text := fmt.Sprintf("%s %s and %s, %s %s\n", removed, plural(len(p.Runs), "run", "runs"), plural(len(p.Stores), "copy", "copies"), service.BytesText(p.Bytes), freed)
	for _, r := range p.Runs {
		text += r.Name + "\t" + quote(r.Dir) + "\t" + r.State + "\t" + service.BytesText(r.Bytes) + "\n"
	}
	for _, s := range p.Stores {
		text += "copy\t" + quote(s.Dir) + "\t" + service.BytesText(s.Bytes) + "\t" + quote(s.Store) + "\n"
	}

	return text
}

// runFinder returns a Finder that prints its remarks to the standard error.
func runFinder(a *app) *runs.Finder { return &runs.Finder{Command: a.command, Note: a.note} }

// withRun calls fn with the named run and a connection to it. It prefers the runs of dir, by default the working
// directory. If name is "", it takes the newest of these runs.
func withRun(ctx context.Context, a *app, dir, name string, fn func(r *runs.Run, c *client.Client) error) error {
	if dir == "" {
		var err error
		if dir, err = a.commandDir(); err != nil {
			return err
		}
	}
	return runFinder(a).WithRun(ctx, dir, name, fn)
}

// markGroup sets the state of a run, removed or kept, in each directory of the run.
func markGroup(ctx context.Context, a *app, dir, name, state string) error {
	return runFinder(a).WithEachRun(ctx, dir, name, func(r *runs.Run, _ *client.Client) error {
		if err := r.CheckRemovable(); err != nil {
			return err
		}
		return runs.MarkState(ctx, a.command, r.Store, r.Name, r.Command, state)
	})
}

// withEachRun calls fn for the run that withRun finds, and then for the runs of its other directories.
func withEachRun(ctx context.Context, a *app, name string, fn func(r *runs.Run, c *client.Client) error) error {
	dir, err := a.commandDir()
	if err != nil {
		return err
	}
	return runFinder(a).WithEachRun(ctx, dir, name, fn)
}

// runsStoreHere returns the store of the runs of the working directory, if there is one.
func runsStoreHere(a *app) (store string, ok bool) {
	dir, err := a.commandDir()
	if err != nil {
		return "", false
	}
	if _, store, err = runs.ResolveDirAndStore(dir); err != nil {
		return "", false
	}

	_, ok = runs.SourceDir(store)
	return store, ok
}
