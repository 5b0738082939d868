package snapshot

import (
	"context"
	"sync"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Directory is the one that a workspace was filled from.
type Directory struct{ w *Workspace }

func (w *Workspace) Directory() Directory { return Directory{w} }

// State returns what the directory had when it was last read for this workspace. It has an id.
// A fork begins with that of its parent.
func (d Directory) State(ctx context.Context) (*tree.State, error) {
	w, id := d.w, ""
	w.read(func() { id = w.ws.Dir })
	if id != "" {
		h, err := cas.ParseHash(id)
		if err != nil {
			return nil, err
		}
		return tree.Load(w.store.src, h)
	}
	main := w.store.Main()
	if _, err := main.Snapshots().WaitSealed(ctx, "base"); err != nil {
		return nil, err
	}
	return main.StateOf("base")
}

// Refresh merges into the workspace what changed in the directory.
// now is what the directory has: a sealed state, made of that of State. If changes
// conflict, nothing is touched, unless the options decide.
func (d Directory) Refresh(ctx context.Context, now *tree.State, o MergeOptions) (res MergeResult, err error) {
	rule, err := threeway.RuleOf(o.Ours, o.Theirs)
	if err != nil {
		return res, err
	}
	base, err := d.State(ctx)
	if err != nil {
		return res, err
	}
	w, s := d.w, d.w.store
	defer s.Hold(base)()
	defer s.Hold(now)()
	out, err := retryWithWholeBudget(ctx, o.List, func() (outcome, error) { return d.refresh(ctx, base, now, o, rule) })
	if out.report(w, "directory", o.Caller); out.Undo != "" {
		s.event(Event{Workspace: w.ws.View, Action: "refreshed", From: out.Undo}, o.Caller)
	}
	out.DryRun = o.DryRun
	return MergeResult{out.conflicts, out.said, out.Changes}, err
}

func (d Directory) refresh(ctx context.Context, base, now *tree.State, o MergeOptions, rule threeway.Rule) (out outcome, err error) {
	w, s := d.w, d.w.store
	e, err := s.forest.As(o.Caller.Actor).Edit(ctx, w.ws.View)
	if err != nil {
		return out, err
	}
	defer s.Hold(e.Base())()
	defer e.End()
	leave := sync.OnceFunc(s.Importing()) // merged files
	defer leave()
	p, c, err := o.plan(ctx, w, e, base, live.Graft{Options: graft.Options{Source: now, View: w.ws.View}}, rule)
	if err != nil {
		return out, err
	}
	id, _ := now.ID()
	c.dir, c.check, c.leave = id.String(), func() error { return nil }, leave
	c.before = CaptureOptions{Message: "before refresh", Caller: o.Caller}
	return c.merge(ctx, p, o.DryRun)
}
