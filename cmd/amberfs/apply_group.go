package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/question"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// applyParts applies a run of several directories. It plans all applies before it changes a directory: a conflict in
// one directory leaves all unchanged. It prints the result with show, and reports whether some changes were
// left.
func (a *app) applyParts(ctx context.Context, parts runParts, ask asking, o hostdir.ApplyOptions, show func(text string)) (left bool, err error) {
	questions, err := a.planParts(ctx, parts, ask, o)
	if err != nil {
		return true, err
	}

	if ask != askNever {
		yes, err := a.askParts(ctx, questions)
		if err != nil || !yes {
			return !question.AllEmpty(questions), err
		}
	}

	var all []*hostdir.Applied
	for i, p := range parts {
		one := o
		one.Own, one.Name = true, p.run.Name
		if ask != askNever {
			one.Choose = questions[i].Choose
		}

		done, err := a.apply(ctx, p.ch, p.run.Dir, one)
		if err != nil {
			return true, fmt.Errorf("%w\n\tapplied before: %s", err, dirsOf(parts[:i]))
		}
		for _, s := range append(done.Skipped, done.Notes...) {
			a.note("%s: %s", quote(filepath.Join(p.run.Dir, s.Path)), s.Reason)
		}

		all = append(all, done)
		rest := questions[i].Left || done.Incomplete
		left = left || rest
		if !o.DryRun {
			err = a.applied(ctx, &p.run, p.c, done, !rest && o.Conflicts != threeway.KeepOurs)
		}
		if err != nil {
			return true, err
		}
	}

	if a.json {
		return left, a.printJSON(all)
	}
	for _, done := range all {
		show(a.appliedLines(done))
	}

	return left, nil
}

// planParts plans the apply of each part. Conflicts are an error, unless the user is asked about them.
func (a *app) planParts(ctx context.Context, parts runParts, ask asking, o hostdir.ApplyOptions) (questions []*question.Question, err error) {
	var conflicts []string
	for _, p := range parts {
		dry := o
		dry.Own, dry.Name, dry.DryRun, dry.Merge = true, p.run.Name, true, false
		plan, err := a.apply(ctx, p.ch, p.run.Dir, dry)
		if plan == nil || err != nil && len(plan.Conflicts) == 0 {
			return nil, err
		}

		for _, name := range plan.Conflicts {
			conflicts = append(conflicts, filepath.Join(p.run.Dir, name))
		}
		questions = append(questions, question.New(a.terminal(), p.ch, p.run.Dir, o.Conflicts, plan))
	}

	if len(conflicts) > 0 && o.Conflicts == threeway.RefuseConflicts && (ask == askNever || !a.asks()) {
		e := errs.Fail(errs.Conflict, "%s changed on both sides; nothing was changed in any directory", plural(len(conflicts), "path", "paths")).
			WithHint("%s", threeway.DecideHint("add --prefer dir (--ours) or --prefer run (--theirs)", conflicts))
		return nil, a.printFailed(map[string][]string{"conflicts": conflicts}, e, func() { a.printPaths(conflicts) })
	}

	return questions, nil
}

// askParts shows the plan for each directory, and asks once for all directories.
func (a *app) askParts(ctx context.Context, questions []*question.Question) (yes bool, err error) {
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
	if !a.asks() {
		return false, errs.Fail(errs.Invalid, "not a terminal: cannot ask").WithHint("use --yes or --apply=yes")
	}

	return question.AskAll(ctx, questions)
}

func dirsOf(parts runParts) string {
	var dirs []string
	for _, p := range parts {
		dirs = append(dirs, quote(p.run.Dir))
	}
	if len(dirs) == 0 {
		return "none"
	}
	return strings.Join(dirs, ", ")
}

// onMembers opens the runs of members, the other directories of a run, and calls fn with parts and these.
func (a *app) onMembers(ctx context.Context, members []runs.Member, parts runParts, fn func(runParts) error) error {
	if len(members) == 0 {
		return fn(parts)
	}
	if members[0].Name == "" {
		return a.onMembers(ctx, members[1:], parts, fn)
	}

	return a.onRun(ctx, members[0].Dir, members[0].Name, func(r *runs.Run, c *client.Client) error {
		if err := r.Applicable(r.Dir); err != nil {
			return err
		}
		ch, err := c.Changes(ctx, "")
		if err != nil {
			return err
		}
		defer ch.Close()

		return a.onMembers(ctx, members[1:], append(parts, &runPart{run: *r, c: c, ch: ch}), fn)
	})
}

// applyGroup applies a run of several directories, of which r is the first.
func (a *app) applyGroup(ctx context.Context, r *runs.Run, c *client.Client, members []runs.Member, ask asking, o hostdir.ApplyOptions) error {
	ch, err := c.Changes(ctx, "")
	if err != nil {
		return err
	}
	defer ch.Close()

	return a.onMembers(ctx, members, runParts{{run: *r, c: c, ch: ch}}, func(parts runParts) error {
		left, err := a.applyParts(ctx, parts, ask, o, func(text string) { a.printf("%s", text) })
		if left && err == nil {
			a.note("the rest of the run %s is kept", r.Name)
		}
		return err
	})
}

// onRunAndMembers is onRun for the runs of all directories of a run.
func (a *app) onRunAndMembers(ctx context.Context, name string, fn func(r *runs.Run, c *client.Client) error) error {
	var members []runs.Member
	err := a.onRun(ctx, "", name, func(r *runs.Run, c *client.Client) (err error) {
		if members, err = runs.Group(r.Store, r.Name); err != nil {
			return err
		}
		return fn(r, c)
	})

	for _, m := range members {
		if err == nil && m.Name != "" {
			err = a.onRun(ctx, m.Dir, m.Name, fn)
		}
	}

	return err
}
