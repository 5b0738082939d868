package threeway

import (
	"context"
	"errors"
	"slices"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// TakeAll merges all changes of an interval, from its base to theirs, and returns the steps. exact is set if ours
// equals the base, so that the result equals theirs. The error is ErrStaleDecision if a decision was not used.
func (p *Plan) TakeAll(ctx context.Context, interval Interval) (all []graft.Step, exact bool, err error) {
	equal, err := tree.Equal(ctx, p.Source, interval.Base, p.Ours, tree.DiffOptions{}, 0)
	if err != nil {
		return nil, false, err
	}

	if equal && len(p.Decisions) == 0 && interval.Applied == nil {
		all, err = graft.StepsBetween(ctx, p.Source, p.Ours, interval.Theirs, tree.DiffOptions{}, p.ListCharge)
		removesGit := slices.ContainsFunc(all, func(s graft.Step) bool {
			_, _, inGit := SplitGitPath(s.Path.String() + "/")
			return inGit && s.After == 0
		})
		if err != nil || p.FromDirectory || p.Git == nil || !removesGit {
			return all, true, err
		}
	}

	if err := tree.Diff(ctx, p.Source, interval.Base, interval.Theirs, tree.DiffOptions{}, func(c tree.Change) error {
		if applied, err := p.isApplied(&interval, c); applied || err != nil {
			return err
		}
		return p.Collect(ctx, &interval, c)
	}); err != nil {
		return nil, false, err
	}
	if err := p.TakeChanges(ctx, interval); err != nil {
		return nil, false, err
	}
	if err := p.checkDecisions(); err != nil {
		return nil, false, err
	}

	all, err = p.Steps()
	return all, false, err
}

// isApplied reports whether a change was made by the apply of i.Applied, and ours has a later version of the file. In
// git directories, the merge of git decides this.
func (p *Plan) isApplied(i *Interval, c tree.Change) (bool, error) {
	name := c.Path.String()
	if _, _, inGit := SplitGitPath(name); i.Applied == nil || inGit {
		return false, nil
	}

	applied, err := i.Applied.InodeAt(p.Source, name)
	ours, oursErr := p.Ours.InodeAt(p.Source, name)
	if err = errors.Join(err, oursErr); err != nil {
		return false, err
	}
	if is, err := isVersion(p.Source, applied, c.After); !is || err != nil {
		return false, err
	}

	isCurrent, err := isVersion(p.Source, applied, ours)
	return !isCurrent, err
}

// isVersion reports whether two entries of a path are equal, also in their number of names.
func isVersion(src *tree.Source, a, b *tree.Inode) (bool, error) {
	if a != nil && b != nil && !a.IsDir() && a.Nlink != b.Nlink {
		return false, nil
	}
	return tree.SameFile(src, a, b)
}

// TakeChanges merges the changes of an interval. It merges git directories as repositories, directories of Mercurial
// and jj as one entry each, and all other files one by one.
func (p *Plan) TakeChanges(ctx context.Context, interval Interval) error {
	apart, err := p.splitWholeDirs(&interval)
	if err != nil {
		return err
	}

	var out GitOutcome

	if p.Git != nil {
		out, err = p.Git(ctx, Sides{p.Source, interval.Base, p.Ours, interval.Theirs, interval.Changes, p.Rule, p.GitOptions})
		if out.Close != nil {
			defer out.Close()
		}
		if err != nil {
			return err
		}
		interval.Changes, interval.TakenPaths, p.Repositories = out.Changes, out.TakenPaths, out.Repositories
	}

	interval.Changes = sortChanges(append(interval.Changes, apart...))
	if err := p.Run(func() error { return p.TakeInterval(ctx, interval) }); err != nil {
		return err
	}

	for _, filePath := range out.Conflicts {
		if err := p.addConflict(filePath, nil); err != nil {
			return err
		}
	}

	return p.PlanEdits(ctx, out.Edits)
}
