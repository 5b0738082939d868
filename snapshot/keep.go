package snapshot

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// toKeep looks at one workspace after the other. Before, it reports the snapshots that were
// taken between two actors, with the lock held.
func (c *entries) toKeep() iter.Seq[policy.Workspace] {
	var captured []Event
	var all []*Workspace
	c.alter(func(*live.Tx) {
		captured, c.captured = c.captured, nil
		all = slices.Collect(maps.Values(c.workspaces))
	})
	for _, e := range captured {
		c.event(e, actors.Caller{})
	}
	return func(yield func(policy.Workspace) bool) {
		for _, w := range all {
			var out policy.Workspace
			c.look(func(tx *live.Tx) {
				n := tx.Changed(w.rec.View)
				out = policy.Workspace{
					View: w.rec.View, Name: w.rec.Name, Policy: w.rec.Policy, Undo: w.rec.Undo, Changes: n, Changed: n != w.at,
					Newest: w.Snapshots().Newest(), Remove: w.Snapshots().removeOld, EndForks: w.Forks().expire,
					Capture: func() error {
						_, err := w.Capture(CaptureOptions{Kind: KindAuto})
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
		if !reflect.DeepEqual(rules, w.rec.Policy) {
			return nil // the next round asks the new policy
		}
		var r deleteRecord
		for _, view := range views {
			sn, ok := s.cat.snaps[view]
			if !ok || sn.Pinned || view == w.rec.Undo || sn == w.snaps.Newest() && !sn.Expired(now) {
				continue
			}
			r.Views = append(r.Views, view)
			names = append(names, sn.Name)
		}
		if len(r.Views) == 0 {
			return nil
		}
		return s.commit(tx, recDelete, &r)
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		s.event(Event{Workspace: w.rec.View, Action: "expired", From: name}, actors.Caller{})
	}
	return nil
}
