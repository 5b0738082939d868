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

// A Directory has the operations on the directory from which a workspace was filled.
type Directory struct{ w *Workspace }

func (w *Workspace) Directory() Directory { return Directory{w} }

// Held returns the state of the directory when it was last read for this workspace. The state is
// sealed, and held until release is called. A new fork has the state of its parent.
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
		if st, err = tree.Load(s.src, h); err != nil {
			return err
		}

		release = s.Hold(st)

		return nil
	})
	if err != nil || st != nil {
		return st, release, err
	}

	// The directory was only read to fill main, so its state is the base of main.
	main := s.Main()
	if _, err := main.Snapshots().WaitSealed(ctx, "base"); err != nil {
		return nil, nil, err
	}

	return main.Held("base")
}

// Refresh merges the changes of the directory since it was last read into the workspace. now is the
// present state of the directory, a sealed state made from the state of Held. Conflicts are treated
// as in Forks.Merge.
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

	order := change{name: "refresh", caller: o.Caller, list: o.List, from: "directory", Changes: Changes{DryRun: o.DryRun}}
	c, err := d.w.change(ctx, order, func(c *change) error {
		id, _ := now.ID()
		c.message, c.record.Dir = "before refresh", id.String()
		c.graft.Options = graft.Options{Source: now, View: d.w.ws.View}
		return o.plan(ctx, c, base, rule)
	})
	if c.Undo != "" {
		d.w.store.emit(events.Event{Workspace: d.w.ws.View, Action: "refreshed", From: c.Undo}, o.Caller)
	}

	return c.mergeResult(), err
}
