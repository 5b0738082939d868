package main

import (
	"context"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/question"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// finish prints the changes of the program, and applies them if the user has asked for it. It returns an error if some
// changes could not be applied. The changes of an interrupted program are applied only after a question.
func (k *keptRun) finish(interrupted bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGHUP) // not SIGINT, which may be meant for the pager of a question
	defer stop()

	r, err := runs.FindRun(ctx, k.store, k.name, k.a.command)
	if err != nil {
		return err
	}
	if r.State == service.RunRunning {
		return k.noteStillRunning()
	}
	if err := k.forEach(func(m *keptRun) error { return m.saveState(ctx, service.RunKept) }); err != nil {
		return err
	}

	fork, err := k.openClient(ctx, k.name)
	if err != nil {
		return err
	}
	defer fork.Close()

	r.State = service.RunKept
	return runFinder(k.a).WithGroup(ctx, r, fork, func(parts []*runs.Part) error { return k.finishParts(ctx, parts, interrupted) })
}

// finishParts does what finish does, for the parts of the run.
func (k *keptRun) finishParts(ctx context.Context, parts []*runs.Part, interrupted bool) error {
	a := k.a
	if same, err := areUnchanged(ctx, parts); err != nil {
		return err
	} else if same {
		return k.forEach(func(m *keptRun) error { return m.removeUnchanged(ctx) })
	}

	leave, err := sandbox.JoinFork(ctx, k.store, k.name, messagePrinter(a, nil, nil)) // so that no other command removes the run during the question
	if err != nil {
		return err
	}

	defer leave()

	if len(parts) == 1 {
		k.noteOutsideChanges(ctx, parts[0].Client)
	}
	if interrupted && k.applyMode == applyFlagYes {
		a.note("interrupted: nothing is applied")
		k.applyMode = ""
	}
	if k.applyMode == "" {
		return k.printChanges(ctx, parts)
	}

	ask := map[string]askMode{applyFlagAsk: askAfterKeptRun}[k.applyMode]
	if len(parts) > 1 {
		show := func(text string) { a.noteText(strings.TrimSuffix(text, "\n")) } // the standard output belongs to the program
		incomplete, err := applyParts(ctx, a, parts, ask, hostdir.ApplyOptions{}, show)
		if incomplete || err != nil {
			k.printCommands("the run " + k.name + " is kept")
		}
		return err
	}

	q, applied, err := applyAfterRun(ctx, a, parts[0].Changes, k.dir, k.name, ask)
	incomplete := q != nil && q.HasUnapplied || applied != nil && applied.Incomplete
	switch {
	case err == nil && q != nil && q.RemoveRun:
		leave()
		return markRunRemoved(context.WithoutCancel(ctx), a, k.store, k.name)
	case err == nil && applied == nil && !incomplete:
		return k.saveState(ctx, service.RunApplied)
	}

	subject := "the run " + k.name
	if applied != nil {
		if err = recordApplied(ctx, a, &parts[0].Run, parts[0].Client, applied, !incomplete); !incomplete {
			return err
		}

		subject = "the rest of the run " + k.name
	}

	k.printCommands(subject + " is kept")

	return err
}

// areUnchanged reports whether nothing changed in any part.
func areUnchanged(ctx context.Context, parts []*runs.Part) (bool, error) {
	for _, p := range parts {
		if same, err := gitbridge.Unchanged(ctx, p.Changes.Source, p.Changes.Base, p.Changes.Now, true); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// noteOutsideChanges prints a remark if the directory itself was changed during the run.
func (k *keptRun) noteOutsideChanges(ctx context.Context, fork *client.Client) {
	// The error may mean that there are conflicts, which are counted too.
	done, _ := refreshFrom(ctx, k.a, fork, k.dir, k.store, service.Refresh{MergeRules: snapshot.MergeRules{DryRun: true}}, runs.RefreshFilter{Hidden: k.hidden})
	if n := done.Changed + len(done.Conflicts); n > 0 {
		k.a.note("%s changed in %s itself meanwhile. Programs from before the run, such as docker, watchers and editors, use that and not the run", plural(n, "path", "paths"), quote(k.dir))
	}
}

// noteStillRunning prints that another program is still running in the run. The command of the last program will
// apply or remove the run. If this command should apply the run, noteStillRunning returns an error.
func (k *keptRun) noteStillRunning() error {
	k.a.noteText("the run " + k.name + " goes on: another program is in it\n\tlook at it: amberfs runs diff " + k.name)
	if k.applyMode != "" {
		return errs.Fail(errs.Busy, "nothing was applied: another program is in the run %s", k.name)
	}
	return nil
}

// removeUnchanged removes a run without changes.
func (k *keptRun) removeUnchanged(ctx context.Context) error {
	if err := k.deleteFork(ctx); errs.ScriptKind(err) == errs.Busy {
		return k.noteStillRunning()
	} else if err != nil {
		return err
	}
	if k.a.json && k.applyMode != "" {
		return k.a.printJSON(hostdir.EmptyResult(k.dir))
	}

	k.a.note("nothing changed: the run %s is removed", k.name)
	return nil
}

// deleteFork deletes a run, and sets k.storeIsEmpty if it was the last one in the store.
func (k *keptRun) deleteFork(ctx context.Context) error {
	main, err := k.openClient(ctx, "")
	if err != nil {
		return err
	}
	defer main.Close()

	ctx = context.WithoutCancel(ctx)
	if err = runs.DeleteRun(ctx, main, k.store, k.name); err != nil {
		return err
	}

	all, err := runs.List(ctx, main, k.dir, k.store)
	k.storeIsEmpty = err == nil && len(all) == 0

	return err
}

// printChanges prints what the program changed, and the commands to use next.
func (k *keptRun) printChanges(ctx context.Context, parts []*runs.Part) error {
	lines := []string{"the run " + k.name + " changed"}
	var notes []string
	for _, p := range parts {
		plan, err := applyTo(ctx, k.a, p.Changes, p.Run.Dir, hostdir.ApplyOptions{DryRun: true, WorkspaceName: p.Run.Name})
		if plan == nil || err != nil && len(plan.Conflicts) == 0 {
			k.printCommands("the run " + k.name + " is kept")
			return err
		}

		q := question.New(k.a.questionTerminal(), p.Changes, p.Run.Dir, threeway.RefuseConflicts, plan)
		switch {
		case len(parts) == 1:
			lines[0] += " " + q.Summary()
		case q.Empty():
			lines = append(lines, "in "+quote(p.Run.Dir)+": nothing")
		default:
			lines = append(lines, "in "+quote(p.Run.Dir)+": "+q.Summary())
		}

		lines = append(lines, q.Commits()...)
		for _, n := range plan.Notes {
			notes = append(notes, quote(n.Path)+": "+n.Reason)
		}
	}

	k.printCommands(strings.Join(lines, "\n\t"))
	for _, n := range notes {
		k.a.noteText(n)
	}

	return nil
}

// printCommands prints a text, and the commands to use next.
func (k *keptRun) printCommands(text string) {
	dirArg := ""
	if wd, err := locate.WorkingDir(); err != nil || wd != k.dir {
		dirArg = " " + shellWord(k.dir)
	}

	k.a.noteText(text +
		"\n\tapply it:   amberfs apply" + dirArg + " --run " + k.name +
		"\n\tlook at it: amberfs runs diff " + k.name +
		"\n\tgo on:      amberfs run --resume " + k.name + " -- COMMAND" +
		"\n\tdiscard it: amberfs runs rm " + k.name)
}

// An earlierState is the state of a workspace before a program runs in it.
type earlierState struct {
	a       *app
	config  sandbox.Config
	client  *client.Client
	changes *client.Changes
}

// openEarlierState opens the present state of the workspace of a run in a STORE. It ignores errors: after an error,
// printChanges prints nothing.
func openEarlierState(ctx context.Context, a *app, c sandbox.Config) *earlierState {
	b := &earlierState{a: a, config: c}
	ctx = context.WithoutCancel(ctx)
	if b.client, _ = client.Open(ctx, client.Target{Store: c.Store, Workspace: c.Fork, Command: a.command}); b.client != nil {
		b.changes, _ = b.client.Changes(ctx, "")
	}
	return b
}

func (b *earlierState) close() {
	if b != nil && b.changes != nil {
		b.changes.Close()
		b.changes = nil
	}

	if b != nil && b.client != nil {
		b.client.Close()
	}
}

// printChanges prints how many files the program changed, and where the changes are kept.
func (b *earlierState) printChanges(ctx context.Context) {
	if b.changes == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	now, err := b.client.Changes(ctx, "")
	if err != nil {
		return
	}
	defer now.Close()

	const maxFiles = 1000
	files, truncated, err := diff.FirstFiles(ctx, now.Source, b.changes.Now, now.Now, diff.Options{}, maxFiles)
	if err != nil {
		return
	}

	text := "nothing changed"
	if len(files) > 0 {
		text = plural(len(files), "file", "files") + " changed"
	}
	if truncated {
		text = "more than " + text
	}

	switch dir, _ := storedir.FilledSource(b.config.Store); {
	case len(b.config.OtherDirs) > 0:
		text = "nothing is kept"
	case b.config.TempDir != "" && len(files) > 0:
		text += "; nothing is kept"
	case b.config.TempDir != "":
	case b.config.Fork != "":
		text += " in the fork " + b.config.Fork + " of " + quote(b.config.Store)
	default:
		text += " in " + quote(b.config.Store)
		if dir != "" && len(files) > 0 {
			text += "\n\tapply it: " + applyCommandLine(b.config.Store, "", dir, "")
		}
	}

	b.a.noteText(text)
}
