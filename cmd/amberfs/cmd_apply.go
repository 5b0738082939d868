package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/question"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/stream"
)

type applyCommandOptions struct {
	hostdir.ApplyOptions
	ours, theirs, yes, undo bool
	run                     string
}

func applyCommand(a *app) *cobra.Command {
	o := &applyCommandOptions{}
	cmd := &cobra.Command{
		Use:   "apply [DIR] [SNAPSHOT] [--run NAME] [--dry-run] [--ours|--theirs|--prefer SIDE] [--merge] [--no-ignore] [--undo] [--yes]",
		Short: "Write the workspace's changes to a directory",
		Long: `Writes to DIR what changed in the workspace since it was filled or refreshed: contents,
permissions, modification times, links and deletions. In a fork, this includes what its
parents changed. Changes after SNAPSHOT are not applied.

Outside of a mount, apply writes a run of DIR ("amberfs help runs"): NAME or the newest
that is kept. DIR is by default the working directory.

Text that also changed in DIR is merged by lines. Conflicts are listed, and then nothing
is changed.

A branch of git with new commits on both sides stays as in DIR, and amberfs/RUN/BRANCH gets the commits of
the run. --merge merges them, as "git merge" does. --theirs has it the other way round.

At a terminal, apply shows the changes and asks which to apply. Elsewhere it needs --yes
or --dry-run.

It leaves out what .amberignore in DIR names, with the syntax of .gitignore, and settings
files that only "amberfs hook --install" changed. It lists them, and --no-ignore applies
them too.

Symbolic links in DIR are not followed. One apply at a time changes DIR, and the others
wait. Run an interrupted apply again to complete it.

--undo RUN restores what DIR had before the run's last apply, even an interrupted one,
while the run is kept. Later changes in DIR stay, or are a conflict: --theirs restores
what DIR had.`,
		Example: `  amberfs apply
  amberfs apply --run project-1 --dry-run
  amberfs apply ~/project before-lunch --theirs
  amberfs apply --undo project-1`,
		Args: argumentCountCheck(0, 2, "perhaps a DIR and a SNAPSHOT"),
		RunE: func(cmd *cobra.Command, argv []string) error { return runApply(cmd.Context(), a, *o, argv) },
	}

	cmd.Flags().StringVar(&o.run, "run", "", "apply the run `NAME`")
	cmd.Flags().BoolVarP(&o.DryRun, "dry-run", "n", false, "only print what would change")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.undo, "undo", false, "undo the last apply of a run, or of the workspace")
	cmd.Flags().BoolVar(&o.Merge, "merge", false, "merge a checked-out branch of git that moved on both sides")
	cmd.Flags().BoolVar(&o.Everything, "no-ignore", false, "also apply what is left out otherwise")
	cmd.Flags().BoolVar(&o.ours, "ours", false, "keep DIR's version of conflicting paths")
	cmd.Flags().BoolVar(&o.theirs, "theirs", false, "take the workspace's version of conflicting paths")
	addPreferFlag(cmd, &o.ours, &o.theirs, []string{sideDir}, []string{sideWorkspace, sideRun, sideFork})

	return cmd
}

// runApply applies a run or the workspace. words are the arguments of the command: optionally a directory and a
// snapshot, or a run if o.undo is set.
func runApply(ctx context.Context, a *app, o applyCommandOptions, words []string) (err error) {
	if o.ConflictRule, err = threeway.RuleOf(o.ours, o.theirs); err != nil {
		return err
	}

	ask := askForApply
	if o.yes || o.DryRun {
		ask = askNever
	}
	if o.undo {
		return undoApply(ctx, a, cmp.Or(o.run, strings.Join(words, " ")), ask, o.ApplyOptions)
	}

	snapshotName, dir := "", ""
	if len(words) > 1 {
		snapshotName = words[1]
	}
	if len(words) > 0 {
		if dir, err = a.absPath(words[0]); err != nil {
			return err
		}
	}

	p, err := a.location()
	if o.run != "" || err != nil {
		return applyRun(ctx, a, o.run, snapshotName, dir, ask, o.ApplyOptions)
	}
	if dir, err = sourceDirectory(p, dir); err != nil {
		return err
	}

	c, err := a.openClient(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()

	o.WorkspaceName = strings.Join(p.Workspace, "-")
	done, incomplete, err := applyUpTo(ctx, a, c, snapshotName, dir, ask, o.ApplyOptions)
	if done == nil {
		return err
	}
	if incomplete && len(p.Workspace) < 2 {
		defer a.note("the rest stays in the workspace\n\tapply it with: %s", applyCommandLine(p.Store, strings.Join(p.Workspace, ""), dir, snapshotName))
	}

	return a.print(done, func() { a.printf("%s", appliedLines(a, done)) })
}

// applyRun applies a run to dir or, if dir is "", to the directory of the run.
func applyRun(ctx context.Context, a *app, run, snapshot, dir string, ask askMode, o hostdir.ApplyOptions) error {
	return withRun(ctx, a, dir, run, func(r *runs.Run, c *client.Client) error {
		target := cmp.Or(dir, r.Dir)
		if err := r.CheckApplicable(target); err != nil {
			return err
		}

		members, err := runs.GroupMembers(r.Store, r.Name)
		if err != nil {
			return err
		}
		if len(members) > 0 && target == r.Dir && snapshot == "" {
			return runFinder(a).WithGroup(ctx, r, c, func(parts []*runs.Part) error { return applyGroup(ctx, a, parts, ask, o) })
		}

		o.BaseFromDir = target == r.Dir
		running := r.State == service.RunRunning
		if running {
			a.note("a program is in the run %s: this is what it has changed until now", r.Name)
		}

		o.WorkspaceName = r.Name
		done, incomplete, err := applyUpTo(ctx, a, c, snapshot, target, ask, o)
		if done == nil {
			return err
		}
		if !o.DryRun && target == r.Dir {
			err = recordApplied(ctx, a, r, c, done, !incomplete && !running && snapshot == "" && o.ConflictRule != threeway.KeepOurs && !done.Incomplete)
		}
		if incomplete || done.Incomplete && !o.DryRun {
			a.note("the rest of the run %s is kept", r.Name)
		}

		return errors.Join(err, a.print(done, func() { a.printf("%s", appliedLines(a, done)) }))
	})
}

// recordApplied calls r.FinishApply and shows the progress. complete is set if all changes of the run were applied.
func recordApplied(ctx context.Context, a *app, r *runs.Run, c *client.Client, result *hostdir.ApplyResult, complete bool) error {
	bar := a.newProgress()
	defer bar.done()
	return r.FinishApply(ctx, c, result, complete, bar.show)
}

// askMode is the kind of the question that an apply asks.
type askMode int

const (
	askNever askMode = iota
	askForApply
	askAfterStoreRun // after a run with a STORE
	askAfterKeptRun  // after a run of a directory; the user can also choose to remove the run
)

// applyChanges applies changes to a directory. q is the question, nil if applyChanges did not ask. result
// is nil if no changes were applied.
func applyChanges(ctx context.Context, a *app, ch *client.Changes, dir string, ask askMode, o hostdir.ApplyOptions) (
	q *question.Question, result *hostdir.ApplyResult, err error) {
	if ask != askNever {
		var yes bool
		if yes, q, err = askApply(ctx, a, ch, dir, ask, &o); err != nil || !yes {
			return q, nil, err
		}
	}

	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT) // from here on only: during the question, SIGINT may be meant for the pager
	defer stop()

	if result, err = applyTo(ctx, a, ch, dir, o); err != nil {
		return q, nil, printConflicts(a, result, err)
	}

	skipped := result.Skipped
	if ask == askNever {
		skipped = append(skipped, result.Notes...) // a question prints the notes itself, but no question was asked
	}
	for _, s := range skipped {
		a.note("%s: %s", quote(s.Path), s.Reason)
	}
	if ask != askNever && !a.json {
		result.Paths, result.Executes = nil, nil // the question has already listed them
	}

	return q, result, nil
}

// askApply shows the changes that an apply would make, and asks which of them to apply. It sets o.Choose and o.Merge
// according to the answers. yes is false if no change is to be applied.
func askApply(ctx context.Context, a *app, ch *client.Changes, dir string, ask askMode, o *hostdir.ApplyOptions) (yes bool, q *question.Question, err error) {
	dry := *o
	dry.DryRun, dry.Merge = true, false // the question, and not the dry run, decides about merges
	plan, err := applyTo(ctx, a, ch, dir, dry)
	if err != nil && (!a.canAsk() || plan == nil || len(plan.Plan) == 0 || o.ConflictRule != threeway.RefuseConflicts) {
		return false, nil, printConflicts(a, plan, err)
	}

	q = question.New(a.questionTerminal(), ch, dir, o.ConflictRule, plan)
	q.Removable, q.MergeBranches, o.Merge = ask == askAfterKeptRun, o.Merge, false
	switch err := q.Print(ctx); {
	case err != nil:
		return false, q, err
	case q.Empty():
		// If an earlier apply was interrupted, some directories may still have the wrong times. Applying again
		// sets them.
		if _, err := applyTo(ctx, a, ch, dir, *o); err != nil {
			return false, q, err
		}

		fmt.Fprintln(a.stderr, "amberfs: nothing changed in "+quote(dir))
		if a.json {
			return false, q, a.printJSON(plan)
		}

		return false, q, nil

	case !a.canAsk():
		q.HasUnapplied = true
		return false, q, cannotAskError(map[bool]string{true: "use --yes, or --dry-run", false: "use --apply=yes"}[ask == askForApply])
	}

	yes, err = question.Ask(ctx, q)
	o.Choose = q.Choose

	return yes, q, err
}

// applyTo applies changes to a directory, and shows the progress.
func applyTo(ctx context.Context, a *app, ch *client.Changes, dir string, o hostdir.ApplyOptions) (*hostdir.ApplyResult, error) {
	bar := a.newProgress()
	defer bar.done()
	o.Progress = func(p stream.Progress) { bar.show(service.Progress{What: "applying", Done: p.Files, Unit: "files"}) }
	o.OnWait = func() { a.note("another apply to %s, or a copy of it, is under way: waiting for its end", quote(dir)) }
	return runs.ApplyChanges(ctx, ch, dir, o)
}

// printConflicts prints the conflicts of a failed apply. If the apply changed something before it failed,
// printConflicts prints these changes. It returns the error with which the command ends.
func printConflicts(a *app, result *hostdir.ApplyResult, err error) error {
	if result != nil && result.Partial && !a.json {
		a.note("%s", strings.TrimSuffix(appliedLines(a, result), "\n"))
	}
	if result == nil || len(result.Conflicts) == 0 && !result.Partial {
		return err
	}
	return a.printFailed(result, err, func() { printPaths(a, result.Conflicts) }) // a partial apply has no conflicts
}

func printPaths(a *app, paths []string) {
	for _, p := range paths {
		a.printf("%s\n", quote(p))
	}
}

// appliedLines returns the result of an apply as text, with a line for each path.
func appliedLines(a *app, result *hostdir.ApplyResult) string {
	paths, inGit := withoutGit(a, result.Paths)
	if len(result.Paths) == 0 && result.Changed > 0 { // applyChanges has removed the paths, because the question has listed them
		return "applied to " + quote(result.Dir) + " (" + plural(result.Files, "file", "files") + " changed)\n"
	}

	text := service.ChangedText("applied", "would apply", result.DryRun, "to "+quote(result.Dir), result.Files, result.Changed, a.cutList(paths), inGit)
	for _, g := range result.Git {
		text += service.RepositoryText(g.Dir, g.Target, g.Lines, g.Commits)
	}
	if len(result.LeftOut) > 0 {
		text += question.LeftOutText(result.LeftOut, a.verbose) + "\n"
	}
	text += service.HiddenText(result.Hidden)
	for _, p := range result.Executes {
		text += question.ExecutedWarning(string(p)) + "\n"
	}
	if n := len(result.Conflicts); n > 0 {
		text += fmt.Sprintf("%s changed on both sides\n", plural(n, "path", "paths"))
	}

	return text
}

// withoutGit returns the paths outside of .git directories, and the number of the other paths. With -v it returns
// all paths.
func withoutGit(a *app, paths []graft.PathChange) (outsideGit []graft.PathChange, inGit int) {
	if a.verbose {
		return paths, 0
	}
	return service.WithoutGit(paths)
}

const (
	applyFlagAsk = "ask"
	applyFlagYes = "yes"
)

// applyFlag is the flag --apply. The flag has a NoOptDefVal, so its value can only follow after "=": the next word is
// never taken for the value. Its Type is "bool", so that the help shows no type for the value.
type applyFlag string

func (v *applyFlag) String() string     { return string(*v) }
func (v *applyFlag) Type() string       { return "bool" }
func (v *applyFlag) Set(s string) error { *v = applyFlag(s); return nil }

// applyStoreRun applies the changes of a run in a STORE to a directory, after a question unless ask is askNever.
// incomplete is set if the user left out some of the changes. The daemon of the run must still be serving the store.
func applyStoreRun(a *app, c sandbox.Config, dir string, ask askMode) (incomplete bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGHUP) // not SIGINT, which may be meant for the pager of the question
	defer stop()

	err = client.WithClient(ctx, client.Target{Store: c.Store, Workspace: c.Fork, Command: a.command}, func(conn *client.Client) error {
		ch, err := conn.Changes(ctx, "")
		if err != nil {
			return err
		}
		defer ch.Close()

		q, _, err := applyAfterRun(ctx, a, ch, dir, c.Fork, ask)
		incomplete = q != nil && q.HasUnapplied
		return err
	})
	return incomplete, err
}

// applyAfterRun is applyChanges after the end of a run's program. It prints the result to the standard error, because
// the standard output belongs to the program. JSON is printed to the standard output.
func applyAfterRun(ctx context.Context, a *app, ch *client.Changes, dir, name string, ask askMode) (q *question.Question, result *hostdir.ApplyResult, err error) {
	q, result, err = applyChanges(ctx, a, ch, dir, ask, hostdir.ApplyOptions{BaseFromDir: true, WorkspaceName: name})
	if err != nil && ctx.Err() != nil {
		err = errs.Fail(errs.Failed, "interrupted")
	}

	if result != nil && a.json {
		_ = a.printJSON(result) // endCommand reports a failed write
	} else if result != nil {
		a.noteText(strings.TrimSuffix(appliedLines(a, result), "\n"))
	}

	return q, result, err
}

// applyUpTo applies the changes up to a snapshot or, for "", up to the present state. incomplete is set if the user
// left out some of the changes.
func applyUpTo(ctx context.Context, a *app, c *client.Client, snapshotName, dir string, ask askMode, o hostdir.ApplyOptions) (result *hostdir.ApplyResult, incomplete bool, err error) {
	ch, err := c.Changes(ctx, snapshotName)
	if err != nil {
		return nil, false, err
	}
	defer ch.Close()

	q, result, err := applyChanges(ctx, a, ch, dir, ask, o)
	return result, q != nil && q.HasUnapplied, err
}

// noteKeptChanges prints where the changes of a run are kept. If partial is set, some changes were applied,
// and noteKeptChanges names only the other changes.
func noteKeptChanges(a *app, c sandbox.Config, dir string, partial bool) {
	subject := "what " + c.Command[0] + " did"
	if partial {
		subject = "the rest of " + subject
	}

	text := subject + " is kept in " + c.Store + "\n\tapply it with:  " + applyCommandLine(c.Store, c.Fork, dir, "")
	if c.Fork != "" {
		text += "\n\tremove it with: amberfs run " + shellWord(c.Store) + " -- amberfs fork --discard " + c.Fork
	}

	a.noteText(text)
}

// applyCommandLine returns the command that applies a workspace of a store to a directory.
func applyCommandLine(store, fork, dir, snapshot string) string {
	line := "amberfs run "
	if fork != "" {
		line += "--fork " + fork + " "
	}
	line += shellWord(store) + " -- amberfs apply " + shellWord(dir)
	return strings.TrimRight(line+" "+snapshot, " ")
}

// shellWord returns a path as a word for a shell, quoted if needed.
func shellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
