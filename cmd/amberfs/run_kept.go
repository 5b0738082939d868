package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// keptRun is a run of a directory that is kept until it is applied or removed.
type keptRun struct {
	a             *app
	dir           string
	store         string
	name          string // "" for a new name or, if resume is set, for the newest run
	resume        bool
	applyMode     string // "", applyFlagAsk or applyFlagYes
	command       []string
	conflictSides service.Refresh // with resume: the side to take in conflicts
	task          task
	storeIsNew    bool       // the store was made for this run, so it has the directory's present state
	storeIsEmpty  bool       // the store has no runs any more
	otherRuns     []*keptRun // the runs of the other directories
	readOnlyDirs  []string   // other directories that are only read

	restrictions *restrictions        // of the command line, for all directories
	forkOptions  snapshot.ForkOptions // the restrictions of this directory
	hidden       hostdir.Hidden
}

// dirRuns returns the run of each directory, with k's own first.
func (k *keptRun) dirRuns() []*keptRun { return append([]*keptRun{k}, k.otherRuns...) }

// run runs a program in a run of one directory or of several directories.
func (k *keptRun) run(ctx context.Context, c sandbox.Config) error {
	k.command = c.Command
	if err := k.makeStore(ctx); err != nil {
		return err
	}
	if k.resume {
		if err := k.addMembers(ctx); err != nil {
			return err
		}
	}
	for _, m := range k.otherRuns {
		m.command, m.restrictions = k.command, k.restrictions
		if err := m.makeStore(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(k.restrictions.checkAllFound(), k.checkNotNested()); err != nil {
		return err
	}

	c.Store, c.Mountpoint, c.InPlace, c.OtherDirs = k.store, k.dir, true, k.otherDirs()
	bar := k.a.newProgress()
	defer bar.done()

	s := messagePrinter(k.a, bar, func(*daemon.Ready) {})
	var applyErr error
	status, err := sandbox.RunOuter(ctx, c, nil, s, func(c *sandbox.Config) error { return k.prepareForks(ctx, c) }, func(e sandbox.Outcome) (err error) {
		applyErr, err = k.afterProgram(ctx, e)
		return err
	})

	for _, m := range k.dirRuns() {
		if !m.storeIsEmpty {
			continue
		}
		if _, rerr := runs.RemoveIfEmpty(m.store); rerr != nil {
			k.a.note("the copy of %s is not removed: %v", quote(m.dir), rerr)
		}
	}

	return k.a.runStatusError(status, err, applyErr)
}

// makeStore makes the store of the directory, unless it exists.
func (k *keptRun) makeStore(ctx context.Context) error {
	a := k.a
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	if k.dir, err = resolveWorkspaceDir(mounts, k.dir); err != nil {
		return err
	}

	root, err := runs.StoresDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return errs.Fail(errs.ScriptKind(err), "cannot make the directory of the runs: %w", err).WithHint("name another in AMBERFS_RUNS, or use --discard")
	}

	root = locate.Resolve(mounts, root)
	k.store = runs.StorePath(root, mounts, k.dir)
	if k.forkOptions, k.hidden, err = k.restrictions.forDir(k.dir); err == nil && !k.resume {
		k.forkOptions.Hide, k.hidden, err = findAndNoteHidden(ctx, a, k.dir, k.forkOptions.Hide, k.hidden, root)
	}
	if err != nil {
		return err
	}

	cfg := daemon.Config{Store: k.store, Mountpoint: daemon.RunMountpoint(k.store), From: k.dir, Hidden: k.hidden, Exclude: []string{root}, Version: versionText()}
	k.storeIsNew, _, err = makeStore(ctx, a, &cfg, mounts)
	if errs.ScriptKind(err) == errs.NoSpace {
		return errs.Fail(errs.NoSpace, "%w", err).WithHint("free space there, or name a directory on another disk in AMBERFS_RUNS")
	}
	if err != nil {
		return err
	}

	noteSubdirectory(a, k.dir)
	if !k.resume {
		noteSecrets(a, k.dir, k.hidden)
	}

	return nil
}

// afterProgram finishes a run after the end of its program. applyErr is the error of an apply: if the program has
// failed, the command ends with the program's status and not with this error.
func (k *keptRun) afterProgram(ctx context.Context, e sandbox.Outcome) (applyErr, err error) {
	switch {
	case !e.Started && !k.resume:
		return nil, k.forEach(func(m *keptRun) error { return m.deleteFork(ctx) })
	case !e.StillServed: // RunOuter has reported the reason
		k.a.note("the run %s is kept\n\tgo on with: amberfs run --resume %s -- COMMAND", k.name, k.name)
		return nil, nil
	case !e.Started:
		return nil, k.forEach(func(m *keptRun) error { return m.saveState(ctx, service.RunKept) })
	}

	if err := k.task.finish(ctx, k.a, k.location().InFork(k.name)); err != nil {
		return nil, err
	}
	if err := k.reportOtherDirs(ctx); err != nil {
		return nil, err
	}

	return k.finish(e.Interrupted), nil
}

func (k *keptRun) location() locate.Location { return storeLocation(k.store, k.dir) }

func (k *keptRun) openClient(ctx context.Context, fork string) (*client.Client, error) {
	return client.Open(ctx, client.Target{Store: k.store, Workspace: fork, Command: k.a.command})
}

// prepareFork makes the fork of a new run from the directory's present state, or refreshes the fork of a resumed run.
func (k *keptRun) prepareFork(ctx context.Context) error {
	main, err := k.openClient(ctx, "")
	if err != nil {
		return err
	}
	defer main.Close()

	if from, err := storedir.FilledSource(k.store); err == nil && from == "" {
		k.storeIsEmpty = true // another run has removed the store, and the daemon made an empty one
		return errs.Fail(errs.Busy, "another run removed the copy of %s while this one began", quote(k.dir)).WithHint("run it again")
	}

	allRuns, err := runs.List(ctx, main, k.dir, k.store)
	if err != nil {
		return err
	}

	allRuns = runs.DeleteExpired(ctx, main, allRuns)
	if k.resume {
		err = k.refreshFork(ctx, allRuns)
	} else {
		err = k.makeFork(ctx, main, allRuns)
	}
	if err != nil {
		return err
	}

	k.noteEarlierRuns(ctx, main, allRuns)
	if err := k.saveState(ctx, service.RunRunning); err != nil {
		return err
	}

	return k.task.prepare(ctx, k.a, k.location(), snapshot.ForkOptions{Name: k.name, ReadOnly: k.forkOptions.ReadOnly})
}

// makeFork makes the fork of a new run, after it has refreshed the copy of the directory. The run gets the chosen
// name or, without one, the next free name.
func (k *keptRun) makeFork(ctx context.Context, main *client.Client, allRuns []runs.Run) error {
	var names []string
	for _, r := range allRuns {
		names = append(names, r.Name)
	}
	if slices.Contains(names, k.name) {
		return errs.Fail(errs.Exist, "the run %s exists", k.name).WithHint("go on with it by --resume %s, or choose another name", k.name)
	}

	if !k.storeIsNew {
		if _, err := refreshFrom(ctx, k.a, main, k.dir, k.store, service.Refresh{MergeRules: snapshot.MergeRules{Theirs: true}}, runs.RefreshFilter{Hidden: k.hidden}); err != nil {
			return err
		}
	}

	chosen := k.name

	for {
		k.name = cmp.Or(chosen, runs.NewName(k.dir, names))
		owner, err := runs.ClaimName(k.store, k.name)
		if err != nil {
			return err
		}

		if owner == "" {
			k.forkOptions.Name = k.name
			err = main.Do(ctx, k.forkOptions, client.Streams{}, nil)
			if err != nil && errs.ScriptKind(err) != errs.Exist {
				runs.ReleaseName(k.store, k.name)
			}
			if errs.ScriptKind(err) != errs.Exist || chosen != "" {
				return err
			}
		} else if chosen != "" {
			if err := k.releaseStaleName(ctx, owner); err != nil {
				return err
			}
			continue
		}

		names = append(names, k.name) // the name is used by a run that began at the same time, or by a run of another directory
	}
}

// releaseStaleName is called if another store has claimed the name k.name. owner is the path of that store. If that
// store no longer has a run with the name, releaseStaleName releases the name. Otherwise it returns an error.
func (k *keptRun) releaseStaleName(ctx context.Context, owner string) error {
	return runFinder(k.a).WithStore(ctx, owner, func(main *client.Client) error {
		dir, _ := runs.SourceDir(owner)
		all, err := runs.List(ctx, main, dir, owner)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(r runs.Run) bool { return r.Name == k.name }) {
			return errs.Fail(errs.Exist, "%s has a run %s", quote(dir), k.name).WithHint("choose another name")
		}

		runs.ReleaseName(owner, k.name)

		return nil
	})
}

// refreshFork refreshes the fork of a resumed run from the directory, unless another program is in the run.
func (k *keptRun) refreshFork(ctx context.Context, allRuns []runs.Run) error {
	r, err := runs.ChooseRun(allRuns, k.name, k.dir)
	if err != nil {
		return err
	}

	k.name = r.Name
	if r.State == service.RunRunning {
		k.a.note("another program is in the run %s: what changed in %s since is not brought in", k.name, quote(k.dir))
		return nil
	}

	fork, err := k.openClient(ctx, k.name)
	if err != nil {
		return err
	}
	defer fork.Close()

	if err := k.setHiddenOfResumed(ctx, fork); err != nil {
		return err
	}
	done, err := refreshResolvingConflicts(ctx, k.a, fork, "the run", k.dir, k.store, k.conflictSides, runs.RefreshFilter{Hidden: k.hidden})
	if err != nil && len(done.Conflicts) > 0 {
		k.a.note("changed in %s and in the run %s:", quote(k.dir), k.name)
		for _, p := range done.Conflicts {
			fmt.Fprintln(k.a.stderr, "\t"+quote(p))
		}

		return errs.Fail(errs.Conflict, "the run %s does not go on; nothing was changed", k.name).
			WithHint("%s", threeway.DecideHint("add --prefer run (--ours) or --prefer dir (--theirs)", done.Conflicts))
	}

	if err == nil && done.Changed+len(done.Git) > 0 {
		k.a.note("%s came from %s into the run %s", plural(done.Changed, "change", "changes"), quote(k.dir), k.name)

		for _, line := range strings.Split(strings.TrimSuffix(service.GitText(done.Git), "\n"), "\n") {
			if line != "" {
				fmt.Fprintln(k.a.stderr, "\t"+line)
			}
		}
	}

	return err
}

// noteEarlierRuns prints how many other runs are not applied, and their size.
func (k *keptRun) noteEarlierRuns(ctx context.Context, main *client.Client, allRuns []runs.Run) {
	earlier := slices.DeleteFunc(slices.Clone(allRuns), func(r runs.Run) bool { return r.State != service.RunKept || r.Name == k.name })
	if len(earlier) == 0 {
		return
	}

	bytes := int64(0)
	for _, r := range runs.WithSizes(ctx, main, earlier) {
		bytes += r.Bytes
	}

	verb := "runs are"
	if len(earlier) == 1 {
		verb = "run is"
	}

	k.a.note("%d earlier %s not applied, %s: amberfs runs", len(earlier), verb, service.BytesText(bytes))
}

// saveState stores the state of the run, such as service.RunKept, in a snapshot of its fork.
func (k *keptRun) saveState(ctx context.Context, state string) error {
	return runs.MarkState(ctx, k.a.command, k.store, k.name, k.commandText(), state)
}

func (k *keptRun) commandText() string {
	const maxBytes = 200
	text := strings.ToValidUTF8(strings.Join(k.command, " "), "?")
	if len(text) > maxBytes {
		text = strings.ToValidUTF8(text[:maxBytes], "") + "…"
	}
	return text
}

// resumeRun resumes a run. names has the arguments before "--": the name of the run, or none for the newest run.
func (k *keptRun) resumeRun(ctx context.Context, c sandbox.Config, names []string) error {
	k.name, c.Store = strings.Join(names, ""), ""
	if c.Fork != "" {
		return errs.Fail(errs.Invalid, "--resume and --fork cannot be used together")
	}

	if k.dir == "" {
		wd, err := k.a.commandDir()
		if err != nil {
			return err
		}

		k.dir = wd
		if k.name != "" {
			if err := withRun(ctx, k.a, "", k.name, func(r *runs.Run, _ *client.Client) error { k.dir = r.Dir; return nil }); err != nil {
				return err
			}
		}
	}

	return k.run(ctx, c)
}
