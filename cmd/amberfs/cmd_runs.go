package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/question"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
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
changed files and unshared bytes, separated by tabs.

Runs that are applied or unchanged are removed 14 days after their last use. All others
are kept until you remove them.

Runs are below $XDG_STATE_HOME/amberfs/runs (AMBERFS_RUNS). All runs of a directory are
forks in one store.`,
		Example: `  amberfs runs
  amberfs runs diff project-1
  amberfs apply --run project-1`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := a.allRuns(cmd.Context())
			if err != nil {
				return err
			}
			if !all {
				rows = slices.DeleteFunc(rows, func(r runRow) bool { return r.State == service.RunRemoved })
			}
			return a.print(rows, func() { a.printRows(runRows(rows)) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that were removed within a day")
	for _, c := range []*cobra.Command{runsDiffCommand(a), runsRemoveCommand(a), runsRestoreCommand(a), runsPruneCommand(a)} {
		c.DisableFlagsInUseLine = true
		cmd.AddCommand(c)
	}
	return cmd
}

func runRows(all []runRow) [][]string {
	if len(all) == 0 {
		return [][]string{{"no runs"}}
	}
	var out [][]string
	for _, r := range all {
		changed := plural(r.Changed, "file", "files")
		if r.More {
			changed = "at least " + changed
		}
		dir := quote(r.Dir)
		if r.Gone {
			dir += " (gone)"
		}
		out = append(out, []string{r.Name, dir, humanize.Time(r.Used), r.State, changed, bytesText(r.Bytes)})
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
		Args:    args(0, 1, "perhaps a NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			ctx := cmd.Context()
			return a.onRunOf(ctx, "", strings.Join(argv, ""), func(_ *runRow, c *client.Client) error {
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
				if ferr := out.flush(); err == nil {
					err = ferr
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&stat, "stat", false, "only count the changed lines of each file")
	return cmd
}

func runsRemoveCommand(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rm NAME... [--yes]",
		Short: "Remove runs",
		Long: `Removes runs. At a terminal, it shows what each changed and asks. Elsewhere it needs
--yes. For a day, "amberfs runs restore NAME" restores a run.`,
		Example: `  amberfs runs rm project-1`,
		Args:    args(1, -1, "NAMEs of runs"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			if !yes && !a.asks() {
				return fail.New(fail.Usage, "not a terminal: cannot ask").WithHint("use --yes")
			}
			ctx := cmd.Context()
			for _, name := range argv {
				if err := a.onRun(ctx, name, func(r *runRow, c *client.Client) error {
					if r.State == service.RunRunning {
						return fail.New(fail.Busy, "the run %s is running", r.Name).WithHint("end its program first")
					}
					if !yes {
						if sure, err := a.sure(ctx, r, c); err != nil || !sure {
							return err
						}
					}
					return a.removeRun(ctx, r.Store, r.Name)
				}); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// sure asks whether a run is to be removed.
func (a *app) sure(ctx context.Context, r *runRow, c *client.Client) (bool, error) {
	ch, err := c.Changes(ctx, "")
	if err != nil {
		return false, err
	}
	defer ch.Close()
	what := plural(r.Changed, "changed file", "changed files")
	if plan, _ := a.apply(ctx, ch, r.Dir, gitbridge.ApplyOptions{DryRun: true}); plan != nil {
		q := question.New(a.terminal(), ch, r.Dir, threeway.RefuseConflicts, plan)
		what = strings.Join(append([]string{q.Summary()}, q.Commits()...), "\n")
	}
	return question.YesNo(ctx, a.terminal(), fmt.Sprintf("remove the run %s, %s, %s? [y/N]: ", r.Name, r.State, what))
}

// removeRun marks a run as removed. It goes a day later.
func (a *app) removeRun(ctx context.Context, store, name string) error {
	err := markRun(ctx, a, store, name, "", service.RunRemoved)
	if err == nil {
		a.note("the run %s is removed\n\tfor a day it can be had back: amberfs runs restore %s", name, name)
	}
	return err
}

func runsRestoreCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "restore NAME",
		Short:   "Have a removed run back",
		Long:    `Restores a run that was removed less than a day ago.`,
		Example: `  amberfs runs restore project-1`,
		Args:    args(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return a.onRun(cmd.Context(), argv[0], func(r *runRow, _ *client.Client) error {
				if r.State != service.RunRemoved {
					return fail.New(fail.Exists, "the run %s was not removed", r.Name)
				}
				err := markRun(cmd.Context(), a, r.Store, r.Name, r.Command, service.RunKept)
				if err == nil {
					a.printf("the run %s is kept\n", r.Name)
				}
				return err
			})
		},
	}
}

func runsPruneCommand(a *app) *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:   "prune [--yes] [--dry-run]",
		Short: "Remove the runs that are applied, and copies without runs",
		Long: `Deletes runs that are applied, unchanged or removed, and stores without runs. At a
terminal, it asks.`,
		Example: `  amberfs runs prune`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes && !dryRun && !a.asks() {
				return fail.New(fail.Usage, "not a terminal: cannot ask").WithHint("use --yes, or --dry-run")
			}
			return a.prune(cmd.Context(), yes, dryRun)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only print what would be removed")
	return cmd
}

// Pruned is what runs prune removes.
type pruned struct {
	Runs   []runRow `json:"runs"`
	Stores []string `json:"stores"`
	Bytes  int64    `json:"bytes"`
	DryRun bool     `json:"dry_run,omitempty"`
}

func (a *app) prune(ctx context.Context, yes, dryRun bool) error {
	root, err := runs.Root()
	if err != nil {
		return err
	}
	rows, err := a.allRuns(ctx)
	if err != nil {
		return err
	}
	stores, err := runs.Stores(root)
	if err != nil {
		return err
	}
	out := pruned{Runs: []runRow{}, Stores: []string{}, DryRun: dryRun}
	used := make(map[string]bool)
	for _, r := range rows {
		if r.State == service.RunRunning || r.State == service.RunKept && (r.Changed > 0 || r.More) {
			used[r.Store] = true
			continue
		}
		out.Runs = append(out.Runs, r)
		out.Bytes += r.Bytes
	}
	for _, s := range stores {
		if !used[s] {
			out.Stores = append(out.Stores, s)
			out.Bytes += diskUsage(s)
		}
	}
	if len(out.Runs)+len(out.Stores) == 0 || dryRun {
		return a.print(out, func() { a.printf("%s", prunedText(out)) })
	}
	if !yes {
		fmt.Fprint(a.stderr, prunedText(pruned{Runs: out.Runs, Stores: out.Stores, Bytes: out.Bytes, DryRun: true}))
		if sure, err := question.YesNo(ctx, a.terminal(), "remove them? [y/N]: "); err != nil || !sure {
			return err
		}
	}
	for _, r := range out.Runs {
		if slices.Contains(out.Stores, r.Store) {
			continue
		}
		if err := a.onStore(ctx, r.Store, func(main *client.Client) error {
			return main.Do(ctx, service.DeleteFork{Name: r.Name, Discard: true}, client.Exchange{}, nil)
		}); err != nil {
			return err
		}
	}
	for _, s := range out.Stores {
		if err := daemon.Remove(s); err != nil {
			return err
		}
	}
	return a.print(out, func() { a.printf("%s", prunedText(out)) })
}

func prunedText(p pruned) string {
	if len(p.Runs)+len(p.Stores) == 0 {
		return "nothing to remove\n"
	}
	did := "removed"
	if p.DryRun {
		did = "to remove:"
	}
	text := fmt.Sprintf("%s %s and %s, %s\n", did, plural(len(p.Runs), "run", "runs"), plural(len(p.Stores), "copy", "copies"), bytesText(p.Bytes))
	for _, r := range p.Runs {
		text += r.Name + "\t" + quote(r.Dir) + "\t" + r.State + "\n"
	}
	return text
}

func diskUsage(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if i, err := e.Info(); err == nil {
				n += i.Size()
			}
		}
		return nil
	})
	return n
}

// allRuns lists the runs of all directories, the newest first.
func (a *app) allRuns(ctx context.Context) ([]runRow, error) {
	root, err := runs.Root()
	if err != nil {
		return nil, err
	}
	stores, err := runs.Stores(root)
	if err != nil {
		return nil, err
	}
	rows := []runRow{}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(4)
	for _, store := range stores {
		g.Go(func() error {
			err := a.onStore(ctx, store, func(main *client.Client) error {
				dir, _ := runs.Dir(store)
				all, err := listRuns(ctx, main, dir, store)
				if err != nil {
					return err
				}
				all = sizes(ctx, main, expireRuns(ctx, main, all))
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, all...)
				return nil
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				a.note("cannot look at %s: %v", quote(store), err)
			}
			return ctx.Err()
		})
	}
	err = g.Wait()
	slices.SortFunc(rows, func(x, y runRow) int { return y.Used.Compare(x.Used) })
	return rows, err
}

// onStore calls fn with a connection to a store of runs.
func (a *app) onStore(ctx context.Context, store string, fn func(main *client.Client) error) error {
	return sandbox.Serve(ctx, store, func(daemon.Message) {}, func() error {
		main, err := client.Open(ctx, client.Target{Store: store, Command: a.command})
		if err != nil {
			return err
		}
		defer main.Close()
		return fn(main)
	})
}

// onRun calls fn with a run of any directory and a connection to it.
func (a *app) onRun(ctx context.Context, name string, fn func(r *runRow, c *client.Client) error) error {
	return a.onRunOf(ctx, "", name, fn)
}

// onRunOf is onRun for a run of a directory if it has one of that name or, for "", for the
// newest of it. The directory is the working directory if dir is "".
func (a *app) onRunOf(ctx context.Context, dir, name string, fn func(r *runRow, c *client.Client) error) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	if dir == "" {
		if dir, err = a.cwd(); err != nil {
			return err
		}
	}
	dir = locate.Resolve(mounts, dir)
	root, err := runs.Root()
	if err != nil {
		return err
	}
	stores := []string{runs.Store(locate.Resolve(mounts, root), mounts, dir)}
	if name != "" {
		all, err := runs.Stores(root)
		if err != nil {
			return err
		}
		stores = append(stores, slices.DeleteFunc(all, func(s string) bool { return s == stores[0] })...)
	}
	for _, store := range stores {
		of, ok := runs.Dir(store)
		if !ok {
			continue
		}
		found := false
		err := a.onStore(ctx, store, func(main *client.Client) error {
			all, err := listRuns(ctx, main, of, store)
			if err != nil {
				return err
			}
			var r *runRow
			if i := slices.IndexFunc(all, func(r runRow) bool { return name != "" && r.Name == name }); i >= 0 {
				r = &all[i]
			} else if r, err = chooseRun(all, name, of); err != nil {
				return nil
			}
			found = true
			c, err := client.Open(ctx, client.Target{Store: store, Workspace: r.Name, Command: a.command})
			if err != nil {
				return err
			}
			defer c.Close()
			return fn(r, c)
		})
		if found || err != nil {
			return err
		}
	}
	_, err = chooseRun(nil, name, dir)
	return err
}

// storeHere is the store of the runs of the working directory.
func (a *app) storeHere() (store string, ok bool) {
	mounts, err := locate.Mounts()
	if err != nil {
		return "", false
	}
	dir, err := a.cwd()
	if err != nil {
		return "", false
	}
	root, err := runs.Root()
	if err != nil {
		return "", false
	}
	store = runs.Store(locate.Resolve(mounts, root), mounts, locate.Resolve(mounts, dir))
	_, ok = runs.Dir(store)
	return store, ok
}
