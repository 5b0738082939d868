package snapshot

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// unsearchedWorkspaces returns the workspaces whose present states were not searched yet, although the contents
// must be removed from them, too. With ForgetOptions.Now it considers all workspaces, otherwise only ended forks
// that an undo can restore. The caller holds the lock of the forest.
func (f *forgetRun) unsearchedWorkspaces() (all []*Workspace) {
	for view, w := range f.w.store.workspaces.byView {
		_, searched := f.searchedPresent[view]
		if !searched && (f.options.Now || w.ws.Ended != 0 && len(f.options.In) == 0) {
			all = append(all, w)
		}
	}

	// Edits begin in the order of views, so that two calls do not wait for each other.
	slices.SortFunc(all, func(a, b *Workspace) int { return cmp.Compare(a.ws.View, b.ws.View) })
	return all
}

// rewritePresent removes the contents from a copy of the present state of a workspace. If the state has the
// contents, changes of the workspace are blocked until the record is written.
func (f *forgetRun) rewritePresent(ctx context.Context, w *Workspace) error {
	var st *tree.State
	var ended bool
	if err := f.w.store.forest.Update(true, func(tx *live.Tx) error {
		st, ended = tx.Freeze(w.ws.View), w.ws.Ended != 0
		return nil
	}); err != nil || st == nil {
		return err
	}

	view := w.ws.View
	if _, err := f.w.store.sealer.SealInTurn(ctx, view, st); err != nil && !f.options.DryRun {
		return err
	}

	t := &rewrittenTree{}
	var err error
	if t.state, t.paths, err = f.rewriter.Rewrite(ctx, st); err != nil {
		return err
	}
	if f.searchedPresent[view] = t; t.state == nil || f.options.DryRun {
		return nil
	}

	if !ended {
		return f.editPresent(ctx, w, t)
	}

	id, err := f.w.store.sealer.SealInTurn(ctx, view, t.state)
	f.endedForkEdits = append(f.endedForkEdits, catalogue.Edit{WS: view, State: id.String()})

	return err
}

// editPresent prepares the edit of a present state. After the edit has blocked changes of the workspace, it
// searches the present state again.
func (f *forgetRun) editPresent(ctx context.Context, w *Workspace, t *rewrittenTree) error {
	c := &change{w: w, caller: f.options.Caller, sourceName: "forget"}
	changes, err := c.prepare(ctx, func(c *change) (err error) {
		if _, err := f.w.store.sealer.SealEdited(ctx, w.ws.View, c.present.Clone()); err != nil {
			return err
		}
		if t.state, t.paths, err = f.rewriter.Rewrite(ctx, c.present); t.state == nil {
			return err
		}

		c.newObjects = t.state
		c.graft.Options = graft.Options{Now: time.Now().UnixNano(), Source: t.state, View: w.ws.View, Exact: true}
		c.steps, err = graft.StepsBetween(ctx, f.w.store.src, c.present, t.state, tree.DiffOptions{}, c.listCharge)

		return err
	})
	if err != nil || !changes {
		c.end()
	}
	if errors.Is(err, errs.Stale) { // the workspace has ended, and is searched again
		delete(f.searchedPresent, w.ws.View)
		return nil
	}
	if err != nil || !changes {
		return err
	}

	f.edits = append(f.edits, c)
	return nil
}

// endEdits ends the edits, so that the workspaces can be changed again.
func (f *forgetRun) endEdits() {
	for _, c := range append(f.edits, f.staleEdits...) {
		c.end()
	}
}

// dropStaleEdits drops the edits of workspaces that have ended, or that an undo restored, since the edits were
// prepared. These workspaces are searched again. The caller holds the lock of the forest.
func (f *forgetRun) dropStaleEdits() {
	isStale := func(view uint32, ended bool) bool {
		w := f.w.store.cat.Workspaces.At(view)
		if w != nil && (w.Ended != 0) == ended {
			return false
		}
		delete(f.searchedPresent, view)
		return true
	}

	var fresh []*change
	for _, c := range f.edits {
		if isStale(c.w.ws.View, false) {
			f.staleEdits = append(f.staleEdits, c)
		} else {
			fresh = append(fresh, c)
		}
	}

	f.edits = fresh
	f.endedForkEdits = slices.DeleteFunc(f.endedForkEdits, func(r catalogue.Edit) bool { return isStale(r.WS, true) })
}

// presentEdits returns the edits of the record, and an applier with these edits in the order of the record.
func (f *forgetRun) presentEdits(tx *live.Tx) (*applier, []catalogue.Edit) {
	t := f.w.store.applier(tx)
	t.edits = make(map[uint32]*live.Edit)
	var all []catalogue.Edit
	for _, c := range f.edits {
		t.edits[c.w.ws.View] = c.edit
		all = append(all, c.record)
	}

	return t, append(all, f.endedForkEdits...)
}

// eachRewrittenPresent calls fn with the name of each workspace whose present state had the contents. The caller
// holds the lock of the forest.
func (f *forgetRun) eachRewrittenPresent(fn func(name string, t *rewrittenTree)) {
	for _, view := range slices.Sorted(maps.Keys(f.searchedPresent)) {
		if t := f.searchedPresent[view]; t.state != nil {
			fn(workspaceName(f.w.store.cat, view), t)
		}
	}
}
