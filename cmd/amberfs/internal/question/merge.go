package question

import (
	"bufio"
	"context"
	"errors"
	"slices"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// ErrStopped means that the user stopped the question, and that no answer must be used.
var ErrStopped = errors.New("stopped")

// NewForMerge returns the question about the conflicts of a merge. ours is the side that the merge would change.
func NewForMerge(t Terminal, ours, theirs string) *Question {
	return &Question{terminal: t, ours: ours, theirs: theirs, in: bufio.NewReader(t.In), choices: make(map[string]hostdir.Choice)}
}

// ResolveConflicts asks which side to take for each branch and path in conflicts. It returns the answers as rules, by
// path. Errors: ErrStopped.
func (q *Question) ResolveConflicts(ctx context.Context, repos []threeway.Repository, conflicts []string) (map[string]threeway.Rule, error) {
	err := q.resolveConflicts(ctx, repos, conflicts)
	if errors.Is(err, errNothingApplied) {
		err = ErrStopped
	}
	if err != nil {
		return nil, err
	}

	rules := make(map[string]threeway.Rule)
	for path, c := range q.choices {
		switch {
		case c.Merge:
			rules[path] = threeway.MergeCheckedOut
		case c.Leave:
			rules[path] = threeway.KeepOurs
		default:
			rules[path] = c.ConflictRule
		}
	}

	return rules, nil
}

func (q *Question) resolveConflicts(ctx context.Context, repos []threeway.Repository, conflicts []string) error {
	for _, r := range repos {
		for _, d := range r.Diverged {
			path := branchPath(r.Dir, d)
			if !slices.Contains(conflicts, path) {
				continue
			}
			if err := q.resolveBranch(ctx, group{dir: r.Dir, indivisible: true, isGit: true}, d); err != nil {
				return err
			}
			conflicts = slices.DeleteFunc(slices.Clone(conflicts), func(c string) bool { return c == path })
		}
	}

	for _, path := range conflicts {
		if err := q.resolveConflict(ctx, path); err != nil {
			return err
		}
	}

	return nil
}
