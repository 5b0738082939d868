package snapshot

import (
	"time"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// removeOld implements policy.Workspace.Remove. views are the views of the snapshots to remove.
func (ss Snapshots) removeOld(rules policy.Policy, views []uint32, now time.Time) error {
	s, w := ss.w.store, ss.w
	var names []string
	if err := s.commitNewRecord(actors.Caller{}, func(*live.Tx) (catalogue.Record, error) {
		r, removed := catalogue.NewExpiry(s.cat, w.ws, rules, views, now)
		if r == nil {
			return nil, nil
		}

		names = removed
		return r, nil
	}); err != nil {
		return err
	}
	for _, name := range names {
		s.Hooks.emit(events.Event{Workspace: w.ws.View, Action: "expired", From: name}, actors.Caller{})
	}

	return nil
}

// removeExpired ends the forks that have expired, and removes the snapshots and forks that operations older than
// Policy.UndoSeconds kept for their undo. It returns the earlier of next and the time of the next expiry.
func (w *Workspace) removeExpired(now, next time.Time) (time.Time, error) {
	undoTime := time.Duration(w.store.Main().Policy().UndoSeconds) * time.Second
	oldest, err := w.Ops().removeKept(now.Add(-undoTime))
	if err != nil {
		return next, err
	}
	if !oldest.IsZero() && oldest.Add(undoTime).Before(next) {
		next = oldest.Add(undoTime)
	}

	return w.Forks().endExpired(now, next)
}
