package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Directory has the operations on the directory from which a workspace was filled.
type Directory struct{ w *Workspace }

func (w *Workspace) Directory() Directory { return Directory{w} }

// Hold returns the state that the directory had when it was last read for this workspace. The state is sealed, and
// protected from gc until release is called. For a new fork it is the same state as for its parent.
func (d Directory) Hold(ctx context.Context) (st *tree.State, release func(), err error) {
	return d.w.store.holdDirectory(ctx, func() string { return d.w.ws.DirState })
}

// holdApplied returns the state of the workspace that was applied to the directory since the directory was last read
// for the workspace, nil if there is none. The workspace may have changed after this apply.
func (d Directory) holdApplied(ctx context.Context) (st *tree.State, release func(), err error) {
	id := ""
	d.w.withReadLock(func() { id = d.w.ws.AppliedSinceRead() })
	if id == "" {
		return nil, func() {}, nil
	}
	return d.w.store.holdDirectory(ctx, func() string { return id })
}

// Refresh merges into the workspace the changes that the directory had since it was last read. now is the present
// state of the directory, a sealed state that was made from the state that Hold returned. Conflicts are treated
// as in Forks.Merge.
func (d Directory) Refresh(ctx context.Context, now *tree.State, o MergeOptions) (res MergeResult, err error) {
	base, release, err := d.Hold(ctx)
	if err != nil {
		return res, err
	}
	defer release()
	defer d.w.store.Hold(now)()

	var releaseApplied func()
	if o.Applied, releaseApplied, err = d.holdApplied(ctx); err != nil {
		return res, err
	}
	defer releaseApplied()

	rules := d.w.Policy()
	o.Hidden = rules.HideMatcher()
	args := change{name: "refresh", caller: o.Caller, listCharge: o.ListCharge, sourceName: "directory", Changes: Changes{DryRun: o.DryRun}}
	c, err := d.w.change(ctx, args, func(c *change) error {
		id, _ := now.ID()
		c.message, c.record.DirState = "before refresh", id.String()
		c.graft.Options = graft.Options{Source: now, View: d.w.ws.View}
		return o.plan(ctx, c, base)
	})
	if c.Undo != "" {
		d.w.store.Hooks.emit(events.Event{Workspace: d.w.ws.View, Action: "refreshed", From: c.Undo}, o.Caller)
	}

	return c.mergeResult(), err
}
