package threeway

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// TakeAll plans to take over all that an interval changed, from its base to theirs, and returns
// the steps. exact: nothing else has changed, so ours is to become theirs.
func (p *Plan) TakeAll(ctx context.Context, of Interval) (all []graft.Step, exact bool, err error) {
	differs := errors.New("it differs")
	err = tree.Diff(ctx, p.Source, of.Base, p.Ours, tree.DiffOptions{}, func(tree.Change) error { return differs })
	if err == nil && len(p.Decided) == 0 {
		all, err = graft.Between(ctx, p.Source, p.Ours, of.Theirs, tree.DiffOptions{}, p.List)
		return all, true, err
	}
	if err != nil && !errors.Is(err, differs) {
		return nil, false, err
	}
	if err = tree.Diff(ctx, p.Source, of.Theirs, of.Base, tree.DiffOptions{}, func(c tree.Change) error { return p.Collect(ctx, &of, c) }); err == nil {
		err = p.Run(func() error { return p.Take(ctx, of) })
	}
	if err == nil {
		all, err = p.Steps()
	}
	return all, false, err
}
