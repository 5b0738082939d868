package threeway

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// TakeAll merges all changes of an interval, from its base to theirs, and returns the steps. exact is
// set if ours equals the base, so that the result equals theirs.
func (p *Plan) TakeAll(ctx context.Context, of Interval) (all []graft.Step, exact bool, err error) {
	equal, err := tree.Equal(ctx, p.Source, of.Base, p.Ours, tree.DiffOptions{}, 0)
	if err != nil {
		return nil, false, err
	}

	if equal && len(p.Decided) == 0 {
		all, err = graft.StepsBetween(ctx, p.Source, p.Ours, of.Theirs, tree.DiffOptions{}, p.List)
		removesGit := slices.ContainsFunc(all, func(s graft.Step) bool {
			_, _, inGit := InGit(s.Path.String() + "/")
			return inGit && s.After == 0
		})
		if err != nil || p.FromDirectory || p.Git == nil || !removesGit {
			return all, true, err
		}
	}

	if err := tree.Diff(ctx, p.Source, of.Base, of.Theirs, tree.DiffOptions{}, func(c tree.Change) error { return p.Collect(ctx, &of, c) }); err != nil {
		return nil, false, err
	}
	if err := p.TakeChanges(ctx, of); err != nil {
		return nil, false, err
	}

	all, err = p.Steps()
	return all, false, err
}

// TakeChanges merges the changes of an interval. It merges git directories as repositories, directories of Mercurial
// and jj as one entry each, and all other files one by one.
func (p *Plan) TakeChanges(ctx context.Context, of Interval) error {
	apart, err := p.splitWholeDirs(&of)
	if err != nil {
		return err
	}

	var out Outcome

	if p.Git != nil {
		out, err = p.Git(ctx, Sides{p.Source, of.Base, p.Ours, of.Theirs, of.Changes, p.Rule, p.GitRules})
		if out.Close != nil {
			defer out.Close()
		}
		if err != nil {
			return err
		}
		of.Changes, of.Taken, p.Said = out.Changes, out.Taken, out.Said
	}

	of.Changes = sortChanges(append(of.Changes, apart...))
	if err := p.Run(func() error { return p.Take(ctx, of) }); err != nil {
		return err
	}

	for _, at := range out.Conflicts {
		if err := p.conflict(at, nil); err != nil {
			return err
		}
	}

	return p.Edit(ctx, out.Edits)
}
