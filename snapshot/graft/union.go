package graft

import (
	"context"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Union returns a tree of all that some states have, of each path what the first of them
// has. It is made in a view that no program sees and the journal does not know. The caller
// keeps the states, and gc waits.
func Union(ctx context.Context, f *live.Forest, src *tree.Source, states []*tree.State) (out *tree.State, err error) {
	var view uint32
	if err := f.Update(true, func(tx *live.Tx) (err error) {
		if view, err = tx.NewView(); err == nil {
			tx.AddView(view, states[0])
		}
		return err
	}); err != nil {
		return nil, err
	}
	defer func() { _ = f.Update(true, func(tx *live.Tx) error { tx.DropView(view); return nil }) }()
	for _, st := range states[1:] {
		if err := join(ctx, f, src, view, st); err != nil {
			return nil, err
		}
	}
	err = f.Update(true, func(tx *live.Tx) (err error) {
		out, err = tx.Capture(view)
		return err
	})
	return out, err
}

// join brings into a view what it has not of a state.
func join(ctx context.Context, f *live.Forest, src *tree.Source, view uint32, st *tree.State) error {
	e, err := f.Edit(ctx, view)
	if err != nil {
		return err
	}
	defer e.End()
	var all []live.Step
	taken := make(map[*tree.Path]bool) // paths that are directories in the state only, and what is below them
	if err := tree.Diff(ctx, src, e.Base(), st, tree.DiffOptions{}, func(c tree.Change) error {
		switch {
		case c.Path != nil && taken[c.Path.Dir], c.A != nil && c.B != nil && !c.A.IsDir() && c.B.IsDir():
			taken[c.Path] = true
		case c.A == nil:
			all = append(all, live.StepOf(c))
		}
		return nil
	}); err != nil {
		return err
	}
	if err := e.Graft(ctx, all, live.Graft{Source: st, Now: time.Now().UnixNano()}); err != nil {
		return err
	}
	return f.Update(true, func(tx *live.Tx) error { tx.Apply(e); return nil })
}
