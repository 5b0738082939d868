package snapshot

import (
	"reflect"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/retention"
)

// kept is the store as package retention sees it.
type kept struct{ *Store }

// Views implements retention.Store. Before, it reports the snapshots that were taken between
// two actors, with the lock held.
func (k kept) Views() (views []uint32) {
	var captured []Event
	k.alter(func(*live.Tx) {
		captured, k.cat.captured = k.cat.captured, nil
		for view := range k.cat.workspaces {
			views = append(views, view)
		}
	})
	for _, e := range captured {
		k.event(e)
	}
	return views
}

// Look implements retention.Store.
func (k kept) Look(view uint32) (out retention.Workspace, ok bool) {
	k.look(func(tx *live.Tx) {
		var w *Workspace
		if w, ok = k.cat.workspaces[view]; ok {
			n := tx.Changed(view)
			out = retention.Workspace{
				View: view, Name: w.name, Policy: w.policy, Undo: w.undo, Changes: n, Changed: n != w.at, Newest: w.Snapshots().Newest(),
			}
		}
	})
	return out, ok
}

// Capture implements retention.Store.
func (k kept) Capture(view uint32) error {
	w, ok := k.Workspace(view)
	if !ok {
		return nil
	}
	_, err := w.Capture(CaptureOptions{Kind: KindAuto})
	return err
}

// Remove implements retention.Store.
func (k kept) Remove(of retention.Workspace, views []uint32, now time.Time) error {
	var names []string
	err := k.forest.Update(true, func(tx *live.Tx) error {
		w, ok := k.cat.workspaces[of.View]
		if !ok || !reflect.DeepEqual(of.Policy, w.policy) {
			return nil // the next round asks the new policy
		}
		var r deleteRecord
		for _, view := range views {
			sn, ok := k.cat.snaps[view]
			if !ok || sn.Pinned || view == w.undo || sn == w.snaps.Newest() && !sn.Expired(now) {
				continue
			}
			r.Views = append(r.Views, view)
			names = append(names, sn.Name)
		}
		if len(r.Views) == 0 {
			return nil
		}
		return k.commit(tx, recDelete, &r)
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		k.event(Event{Workspace: of.View, Action: "expired", From: name})
	}
	return nil
}

// EndForks implements retention.Store.
func (k kept) EndForks(view uint32, now, next time.Time) (time.Time, error) {
	w, ok := k.Workspace(view)
	if !ok {
		return next, nil
	}
	return w.Forks().expire(now, next)
}
