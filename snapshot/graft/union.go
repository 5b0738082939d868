package graft

import (
	"context"
	"time"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Owner of states hands out what changes of them need.
type Owner interface {
	// Epoch returns an epoch that nothing else is changed in.
	Epoch() uint64
	Numbers(e *tree.Editor, n uint64) (first uint64, err error) // see Target
}

// Union returns a tree of all that some states have, of each path what the first of them
// has. They stay as they are.
func Union(ctx context.Context, src *tree.Source, owner Owner, states []*tree.State) (*tree.State, error) {
	out := states[0].Clone()
	for _, st := range states[1:] {
		var all []Step
		taken := make(map[*tree.Path]bool) // paths that are directories in the state only, and what is below them
		if err := tree.Diff(ctx, src, out, st, tree.DiffOptions{}, func(c tree.Change) error {
			switch {
			case c.Path != nil && taken[c.Path.Dir], c.Before != nil && c.After != nil && !c.Before.IsDir() && c.After.IsDir():
				taken[c.Path] = true
			case c.Before == nil:
				all = append(all, StepOf(c))
			}
			return nil
		}); err != nil {
			return nil, err
		}
		t := Target{Editor: tree.Editor{State: out.Clone(), Source: src, Epoch: owner.Epoch()}, Base: out, Numbers: owner.Numbers}
		if _, err := t.Graft(ctx, all, Options{Source: st, Now: time.Now().UnixNano()}); err != nil {
			return nil, err
		}
		out = t.State
	}
	return out, nil
}
