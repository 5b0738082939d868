package main

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/question"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// mergeResolvingConflicts calls merge. If merge fails with conflicts, it asks at the terminal which side to take, and
// calls merge again with the answers, by path. Without a terminal it returns the error of merge. ours and theirs are the
// names of the sides in the questions. The merge changes ours.
func mergeResolvingConflicts(ctx context.Context, a *app, ours, theirs string, merge func(map[string]threeway.Rule) (*snapshot.MergeResult, error)) error {
	q := question.NewForMerge(a.questionTerminal(), ours, theirs)
	var rules map[string]threeway.Rule

	for {
		done, err := merge(rules)
		if errs.ScriptKind(err) != errs.Conflict || len(done.Conflicts) == 0 || done.DryRun || !a.resolvesConflicts() {
			return err
		}

		var qerr error
		if rules, qerr = q.ResolveConflicts(ctx, done.Git, done.Conflicts); errors.Is(qerr, question.ErrStopped) {
			return err
		}
		if qerr != nil {
			return qerr
		}
	}
}

// callMerge merges a fork, and asks the user about conflicts.
func (a *app) callMerge(ctx context.Context, p locate.Location, args, result any) error {
	m := args.(snapshot.MergeOptions)
	m.RefuseDiverged = a.resolvesConflicts() && !m.DryRun
	return mergeResolvingConflicts(ctx, a, "the workspace", "the fork "+m.Fork, func(rules map[string]threeway.Rule) (*snapshot.MergeResult, error) {
		m.Resolve = rules
		done := result.(*snapshot.PromoteResult)
		*done = snapshot.PromoteResult{}
		err := a.call(ctx, p, m, done)
		return &done.MergeResult, err
	})
}

// resolvesConflicts reports whether commands ask the user about conflicts.
func (a *app) resolvesConflicts() bool { return a.canAsk() && !a.json }

// cannotAskError returns the error of a command that has to ask the user, but cannot (see app.canAsk).
func cannotAskError(hint string) error {
	return errs.Fail(errs.Invalid, "not a terminal: cannot ask").WithHint("%s", hint)
}
