package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/question"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// applyParts applies a run of several directories. It plans all applies before it changes a directory: a conflict in
// one directory leaves all directories unchanged. It prints the result with show, and reports whether some changes of
// the run were not applied.
func applyParts(ctx context.Context, a *app, parts []*runs.Part, ask askMode, o hostdir.ApplyOptions, show func(text string)) (incomplete bool, err error) {
	questions, err := planParts(ctx, a, parts, ask, o)
	if err != nil {
		return true, err
	}

	if ask != askNever {
		yes, err := askParts(ctx, a, questions)
		if err != nil || !yes {
			return !question.AllEmpty(questions), err
		}
	}

	var all []*hostdir.ApplyResult
	for i, p := range parts {
		options := o
		options.BaseFromDir, options.WorkspaceName = true, p.Run.Name
		if ask != askNever {
			options.Choose = questions[i].Choose
		}

		done, err := applyTo(ctx, a, p.Changes, p.Run.Dir, options)
		if err != nil {
			return true, fmt.Errorf("%w\n\tapplied before: %s", err, quotedDirs(parts[:i]))
		}
		for _, s := range append(done.Skipped, done.Notes...) {
			a.note("%s: %s", quote(filepath.Join(p.Run.Dir, s.Path)), s.Reason)
		}

		all = append(all, done)
		partIncomplete := questions[i].HasUnapplied || done.Incomplete
		incomplete = incomplete || partIncomplete
		if !o.DryRun {
			err = recordApplied(ctx, a, &p.Run, p.Client, done, !partIncomplete && o.ConflictRule != threeway.KeepOurs)
		}
		if err != nil {
			return true, err
		}
	}

	if a.json {
		return incomplete, a.printJSON(all)
	}
	for _, done := range all {
		show(appliedLines(a, done))
	}

	return incomplete, nil
}

// planParts plans the apply of each part. Conflicts are an error, unless the user is asked about them.
func planParts(ctx context.Context, a *app, parts []*runs.Part, ask askMode, o hostdir.ApplyOptions) (questions []*question.Question, err error) {
	var conflicts []string
	for _, p := range parts {
		dry := o
		dry.BaseFromDir, dry.WorkspaceName, dry.DryRun, dry.Merge = true, p.Run.Name, true, false
		plan, err := applyTo(ctx, a, p.Changes, p.Run.Dir, dry)
		if plan == nil || err != nil && len(plan.Conflicts) == 0 {
			return nil, err
		}

		for _, name := range plan.Conflicts {
			conflicts = append(conflicts, filepath.Join(p.Run.Dir, name))
		}
		questions = append(questions, question.New(a.questionTerminal(), p.Changes, p.Run.Dir, o.ConflictRule, plan))
	}

	if len(conflicts) > 0 && o.ConflictRule == threeway.RefuseConflicts && (ask == askNever || !a.canAsk()) {
		e := errs.Fail(errs.Conflict, "%s changed on both sides; nothing was changed in any directory", plural(len(conflicts), "path", "paths")).
			WithHint("%s", threeway.DecideHint("add --prefer dir (--ours) or --prefer run (--theirs)", conflicts))
		return nil, a.printFailed(map[string][]string{"conflicts": conflicts}, e, func() { printPaths(a, conflicts) })
	}

	return questions, nil
}

// askParts shows the plan for each directory, and asks once for all directories.
func askParts(ctx context.Context, a *app, questions []*question.Question) (yes bool, err error) {
	for _, q := range questions {
		if q.Empty() {
			continue
		}
		fmt.Fprintln(a.stderr, quote(q.Dir())+":")
		if err := q.Print(ctx); err != nil {
			return false, err
		}
	}

	if question.AllEmpty(questions) {
		a.note("nothing changed")
		return false, nil
	}
	if !a.canAsk() {
		return false, cannotAskError("use --yes or --apply=yes")
	}

	return question.Ask(ctx, questions...)
}

func quotedDirs(parts []*runs.Part) string {
	var dirs []string
	for _, p := range parts {
		dirs = append(dirs, quote(p.Run.Dir))
	}
	if len(dirs) == 0 {
		return "none"
	}
	return strings.Join(dirs, ", ")
}

// applyGroup applies a run of several directories.
func applyGroup(ctx context.Context, a *app, parts []*runs.Part, ask askMode, o hostdir.ApplyOptions) error {
	incomplete, err := applyParts(ctx, a, parts, ask, o, func(text string) { a.printf("%s", text) })
	if incomplete && err == nil {
		a.note("the rest of the run %s is kept", parts[0].Run.Name)
	}
	return err
}

// undoParts undoes the last apply of a run of several directories. As applyParts, it changes no directory if one of
// them has a conflict.
func undoParts(ctx context.Context, a *app, parts []*runs.Part, ask askMode, o hostdir.ApplyOptions) error {
	var ops []service.OpState
	var undo []*runs.Part
	var notFound error
	for _, p := range parts {
		op, err := runs.FindApply(ctx, p.Client, 0, "the run "+p.Run.Name)
		if errs.ScriptKind(err) == errs.NotExist {
			notFound = cmp.Or(notFound, err)
			continue // this directory has no apply, usually because the run changed nothing in it
		}
		if err != nil {
			return err
		}

		ch, err := p.Client.UndoChanges(ctx, op.Number)
		if err != nil {
			return err
		}
		defer ch.Close()

		ops, undo = append(ops, op), append(undo, &runs.Part{Run: p.Run, Client: p.Client, Changes: ch})
	}

	if len(undo) == 0 {
		return notFound
	}

	o.Everything = true
	questions, err := planParts(ctx, a, undo, ask, o)
	if err != nil {
		return err
	}
	if ask != askNever {
		if yes, err := askParts(ctx, a, questions); err != nil || !yes {
			return err
		}
	}

	for i, p := range undo {
		options := o
		if ask != askNever {
			options.Choose = questions[i].Choose
		}
		if err := undoNumberedApply(ctx, a, p.Client, &p.Run, ops[i].Number, askNever, options, questions[i].HasUnapplied); err != nil {
			return err
		}
	}

	return nil
}
