package snapshot

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// takeChanged returns the views of the workspaces that may have changed since the last call.
func (s entries) takeChanged() (views []uint32) {
	s.withLock(func(tx *live.Tx) {
		views = append(tx.Changes().Take(live.ForPolicies), s.cat.TakeAltered()...)
	})
	return views
}

// workspacesForPolicies yields the workspaces with the given views, or all if views is nil. Before
// that it emits the unsent events.
func (s entries) workspacesForPolicies(views []uint32) iter.Seq[policy.Workspace] {
	var unsent []events.Event
	var all []*Workspace
	s.withLock(func(*live.Tx) {
		unsent, s.unsent = s.unsent, nil
		if views == nil {
			all = slices.DeleteFunc(slices.Collect(maps.Values(s.workspaces)), func(w *Workspace) bool { return w.ws.Ended != 0 })
		}

		for _, view := range views {
			if w, ok := s.workspaces[view]; ok && w.ws.Ended == 0 {
				all = append(all, w)
			}
		}
	})
	for _, e := range unsent {
		s.emit(e, actors.Caller{})
	}

	return func(yield func(policy.Workspace) bool) {
		for _, w := range all {
			var out policy.Workspace
			s.withReadLock(func(tx *live.Tx) {
				n := tx.Changed(w.ws.View)
				out = policy.Workspace{
					View: w.ws.View, Name: w.ws.Name, Policy: w.ws.Policy, Undo: w.ws.Undo, Changes: n, Records: w.ws.Changes + w.ws.ForkChanges, Changed: n != w.ws.ChangedAtCapture,
					Newest: w.Snapshots().Newest(), Remove: w.Snapshots().removeOld, EndForks: w.expire,
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

// removeOld removes the snapshots that rules do not keep. views are the arguments of
// policy.Workspace.Remove.
func (ss Snapshots) removeOld(rules policy.Policy, views []uint32, now time.Time) error {
	s, w := ss.w.store, ss.w
	var names []string
	err := s.forest.Update(true, func(tx *live.Tx) error {
		r, removed := catalogue.NewExpiry(s.cat, w.ws, rules, views, now)
		if r == nil {
			return nil
		}

		names = removed
		return s.commit(tx, r, actors.Caller{})
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		s.emit(events.Event{Workspace: w.ws.View, Action: "expired", From: name}, actors.Caller{})
	}

	return nil
}

// expire ends the forks that have expired, and removes the snapshots and forks that are kept for the undo of
// old operations. It returns the earlier of next and the time at which the next of these is due.
func (w *Workspace) expire(now, next time.Time) (time.Time, error) {
	kept := time.Duration(w.store.Main().Policy().UndoSeconds) * time.Second
	first, err := w.Ops().forget(now.Add(-kept))
	if err != nil {
		return next, err
	}
	if !first.IsZero() && first.Add(kept).Before(next) {
		next = first.Add(kept)
	}

	return w.Forks().expire(now, next)
}
