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

// ForMerge returns the question about the conflicts of a merge. ours is the side that the merge would change.
func ForMerge(t Terminal, ours, theirs string) *Question {
	return &Question{t: t, ours: ours, theirs: theirs, in: bufio.NewReader(t.In), choices: make(map[string]hostdir.Choice)}
}

// Settle asks which side to take for each branch and path in conflicts. It returns the answers as rules, by
// path. Errors: ErrStopped.
func (q *Question) Settle(ctx context.Context, repos []threeway.Repository, conflicts []string) (map[string]threeway.Rule, error) {
	err := q.settleAll(ctx, repos, conflicts)
	if errors.Is(err, errNotApplied) {
		err = ErrStopped
	}
	if err != nil {
		return nil, err
	}

	rules := make(map[string]threeway.Rule)
	for at, c := range q.choices {
		switch {
		case c.Merge:
			rules[at] = threeway.MergeCheckedOut
		case c.Leave:
			rules[at] = threeway.KeepOurs
		default:
			rules[at] = c.Conflicts
		}
	}

	return rules, nil
}

func (q *Question) settleAll(ctx context.Context, repos []threeway.Repository, conflicts []string) error {
	for _, r := range repos {
		for _, d := range r.Diverged {
			at := branchPath(r.Dir, d)
			if !slices.Contains(conflicts, at) {
				continue
			}
			if err := q.resolveBranch(ctx, group{dir: r.Dir, whole: true, git: true}, d); err != nil {
				return err
			}
			conflicts = slices.DeleteFunc(slices.Clone(conflicts), func(c string) bool { return c == at })
		}
	}

	for _, at := range conflicts {
		if err := q.resolveMerged(ctx, at); err != nil {
			return err
		}
	}

	return nil
}
