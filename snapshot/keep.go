package snapshot

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// changed returns the workspaces that may have changed since the last call.
func (s entries) changed() (views []uint32) {
	s.alter(func(tx *live.Tx) {
		views = slices.AppendSeq(tx.Changes().Take(live.ForPolicies), maps.Keys(s.cat.Altered))
		clear(s.cat.Altered)
	})
	return views
}

// toKeep looks at one workspace after the other, at all of them for nil. Before, it reports the
// snapshots that were taken between two actors, with the lock held.
func (s entries) toKeep(views []uint32) iter.Seq[policy.Workspace] {
	var captured []events.Event
	var all []*Workspace
	s.alter(func(*live.Tx) {
		captured, s.captured = s.captured, nil
		if views == nil {
			all = slices.Collect(maps.Values(s.workspaces))
		}
		for _, view := range views {
			if w, ok := s.workspaces[view]; ok {
				all = append(all, w)
			}
		}
	})
	for _, e := range captured {
		s.event(e, actors.Caller{})
	}
	return func(yield func(policy.Workspace) bool) {
		for _, w := range all {
			var out policy.Workspace
			s.look(func(tx *live.Tx) {
				n := tx.Changed(w.ws.View)
				out = policy.Workspace{
					View: w.ws.View, Name: w.ws.Name, Policy: w.ws.Policy, Undo: w.ws.Undo, Changes: n, Records: w.ws.Changes + w.ws.ForkChanges, Changed: n != w.ws.At,
					Newest: w.Snapshots().Newest(), Remove: w.Snapshots().removeOld, EndForks: w.Forks().expire,
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

// removeOld removes snapshots that the policy does not keep, see policy.Workspace.
func (ss Snapshots) removeOld(rules policy.Policy, views []uint32, now time.Time) error {
	s, w := ss.w.store, ss.w
	var names []string
	err := s.forest.Update(true, func(tx *live.Tx) error {
		r, gone := s.cat.NewExpiry(w.ws, rules, views, now)
		if r == nil {
			return nil
		}
		names = gone
		return s.commit(tx, r, actors.Caller{})
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		s.event(events.Event{Workspace: w.ws.View, Action: "expired", From: name}, actors.Caller{})
	}
	return nil
}
