package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
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
	defer d.w.store.Hold(base)()
	defer d.w.store.Hold(now)()

	order := change{caller: o.Caller, list: o.List, from: "directory", Changes: Changes{DryRun: o.DryRun}}
	c, err := d.w.change(ctx, order, func(c *change) error {
		id, _ := now.ID()
		c.message, c.record.Dir = "before refresh", id.String()
		c.graft.Options = graft.Options{Source: now, View: d.w.ws.View}
		return o.plan(ctx, c, base, rule)
	})
	if c.Undo != "" {
		d.w.store.event(events.Event{Workspace: d.w.ws.View, Action: "refreshed", From: c.Undo}, o.Caller)
	}
	return c.mergeResult(), err
}
