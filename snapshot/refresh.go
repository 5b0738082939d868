package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Directory is the one that a workspace was filled from.
type Directory struct{ w *Workspace }

func (w *Workspace) Directory() Directory { return Directory{w} }

// Held returns what the directory had when it was last read for this workspace. It has an id, and
// what it refers to is kept until release is called. A fork begins with that of its parent.
func (d Directory) Held(ctx context.Context) (st *tree.State, release func(), err error) {
	s := d.w.store
	err = s.forest.Update(true, func(*live.Tx) error {
		if d.w.ws.Dir == "" {
			return nil
		}
		h, err := cas.ParseHash(d.w.ws.Dir)
		if err != nil {
			return err
		}
		if st, err = tree.Load(s.src, h); err == nil {
			release = s.Hold(st)
		}
		return err
	})
	if err != nil || st != nil {
		return st, release, err
	}

	main := s.Main()
	if _, err := main.Snapshots().WaitSealed(ctx, "base"); err != nil {
		return nil, nil, err
	}
	return main.Held("base")
}

// Refresh merges into the workspace what changed in the directory.
// now is what the directory has: a sealed state, made of that of Held. If changes
// conflict, nothing is touched, unless the options decide.
func (d Directory) Refresh(ctx context.Context, now *tree.State, o MergeOptions) (res MergeResult, err error) {
	rule, err := threeway.RuleOf(o.Ours, o.Theirs)
	if err != nil {
		return res, err
	}
	base, release, err := d.Held(ctx)
	if err != nil {
		return res, err
	}
	defer release()
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
