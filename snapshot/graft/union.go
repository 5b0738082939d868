package graft

import (
	"context"
	"time"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A NumberAllocator provides epochs and inode numbers for changes of states.
type NumberAllocator interface {
	// Epoch returns an epoch in which no other state is changed.
	Epoch() uint64
	// ReserveInos reserves n inode numbers, as Target.ReserveInos does.
	ReserveInos(e *tree.Editor, n uint64) (first uint64, err error)
}

// Union returns a tree with the paths of all states. Each path has its file in the first state that
// contains it. The states do not change.
func Union(ctx context.Context, src *tree.Source, numbers NumberAllocator, states []*tree.State) (*tree.State, error) {
	out := states[0].Clone()

	for _, st := range states[1:] {
		var all []Step
		hidden := make(map[*tree.Path]bool) // directories that are files in the result, and paths below them
		if err := tree.Diff(ctx, src, out, st, tree.DiffOptions{}, func(c tree.Change) error {
			switch {
			case c.Path != nil && hidden[c.Path.Dir], c.Before != nil && c.After != nil && !c.Before.IsDir() && c.After.IsDir():
				hidden[c.Path] = true
			case c.Before == nil:
				all = append(all, StepOf(c))
			}
			return nil
		}); err != nil {
			return nil, err
		}

		t := Target{Editor: tree.Editor{State: out.Clone(), Source: src, Epoch: numbers.Epoch()}, Base: out, ReserveInos: numbers.ReserveInos}
		if _, err := t.Graft(ctx, all, Options{Source: st, Now: time.Now().UnixNano()}); err != nil {
			return nil, err
		}

		out = t.State
	}

	return out, nil
}
