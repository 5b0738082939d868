package snapshot

import (
	"iter"
	"maps"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A workspaceTable has the workspaces of a store. It gives packages engine, policy, live and actors the
// information that they need about workspaces and snapshots. The lock of the forest guards the fields.
type workspaceTable struct {
	parts        *engine.Parts
	store        *Store                // of the Workspaces
	byView       map[uint32]*Workspace // by view; one for each workspace of the catalogue
	unsentEvents []events.Event        // events to emit later: of the snapshots of captureBetweenActors, and of removed workspaces
}

// TurnSemaphore implements engine.Catalogue.
func (e *workspaceTable) TurnSemaphore(view uint32) (turns *semaphore.Weighted) {
	e.parts.Forest.WithReadLock(func(*live.Tx) {
		if w, ok := e.byView[view]; ok {
			turns = w.tenant().sealTurn
		} else {
			turns = semaphore.NewWeighted(1) // the fork has ended: no other goroutine seals it, so a new semaphore suffices
		}
	})
	return turns
}

// NeedsSeal implements engine.Catalogue.
func (e *workspaceTable) NeedsSeal(sn *catalogue.Snapshot) (name string, needed bool) {
	e.parts.Forest.WithReadLock(func(*live.Tx) { name, needed = sn.Name, e.parts.Catalogue.MustSeal(sn) })
	return name, needed
}

// SetSealed implements engine.Catalogue.
func (e *workspaceTable) SetSealed(sn *catalogue.Snapshot, id cas.Hash, added int64) {
	e.parts.Forest.WithLock(func(*live.Tx) { e.parts.Catalogue.SetID(sn, id, added) })
}

// readView returns the state of a snapshot by its view, errs.Stale if there is no such snapshot.
// The caller holds the lock of the forest, at least for reading.
func (e *workspaceTable) readView(src *tree.Source, view uint32) (*tree.State, error) {
	sn := e.parts.Catalogue.Snapshots.At(view)
	if sn == nil {
		return nil, errs.Stale
	}
	return sn.Tree(src)
}

// takeChangedViews returns the views of the workspaces that may have changed since the last call.
func (e *workspaceTable) takeChangedViews() (views []uint32) {
	e.parts.Forest.WithLock(func(tx *live.Tx) {
		views = append(tx.ChangedViews().TakeChanged(live.ForPolicies), e.parts.Catalogue.TakeAlteredViews()...)
	})
	return views
}

// workspacesForPolicies yields the workspaces with the given views, or all if views is nil. First it emits
// unsentEvents.
func (e *workspaceTable) workspacesForPolicies(views []uint32) iter.Seq[policy.Workspace] {
	var unsent []events.Event
	var all []*Workspace
	e.parts.Forest.WithLock(func(*live.Tx) {
		unsent, e.unsentEvents = e.unsentEvents, nil
		if views == nil {
			all = slices.DeleteFunc(slices.Collect(maps.Values(e.byView)), func(w *Workspace) bool { return w.ws.Ended != 0 })
		}

		for _, view := range views {
			if w, ok := e.byView[view]; ok && w.ws.Ended == 0 {
				all = append(all, w)
			}
		}
	})
	for _, event := range unsent {
		e.store.Hooks.emit(event, actors.Caller{})
	}

	return func(yield func(policy.Workspace) bool) {
		for _, w := range all {
			var out policy.Workspace
			e.parts.Forest.WithReadLock(func(tx *live.Tx) {
				n := tx.ChangeNumber(w.ws.View)
				out = policy.Workspace{
					View: w.ws.View, Name: w.ws.Name, Policy: w.ws.Policy, UndoView: w.ws.UndoView, ChangeNumber: n, RecordChangeCount: w.ws.ChangeCount + w.ws.ForkChangeCount, HasChanges: n != w.ws.ChangeNumberAtCapture,
					NewestFirst: w.Snapshots().retained(), Remove: w.Snapshots().removeOld, EndForks: w.removeExpired,
					Capture: func() error {
						_, err := w.Capture(CaptureOptions{Kind: info.KindAuto})
						return err
					},
				}
			})
			if !yield(out) {
				return
			}
		}
	}
}

// viewAndAncestors returns the view of a workspace and the views of its ancestors, main last.
func (e *workspaceTable) viewAndAncestors(view uint32) (views []uint32) {
	e.parts.Forest.WithReadLock(func(*live.Tx) {
		for ws := e.parts.Catalogue.Workspaces.At(view); ws != nil; ws = e.parts.Catalogue.Parent(ws) {
			views = append(views, ws.View)
		}
	})
	if n := len(views); n == 0 || views[n-1] != live.MainView {
		views = append(views, live.MainView)
	}

	return views
}

// forkName returns the name of the fork with a view, "" for main and for a fork that has ended.
func (e *workspaceTable) forkName(view uint32) string {
	defer e.parts.Forest.ReadLock()()
	if ws := e.parts.Catalogue.Workspaces.At(view); ws != nil && view != live.MainView {
		return ws.Name
	}
	return ""
}
