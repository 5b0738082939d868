package snapshot

import (
	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/actors/blame"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Intervals returns the intervals of the workspace, newest first.
func (ss Snapshots) Intervals() (all []catalogue.Interval) {
	ss.w.store.forest.WithReadLock(func(tx *live.Tx) { all = ss.w.store.cat.Intervals(tx, ss.w.ws) })
	return all
}

// OpenInterval returns an interval with the states at its two ends and the actors of its changes. It fails if the
// snapshot at one end was removed.
func (ss Snapshots) OpenInterval(i catalogue.Interval) (*blame.OpenInterval, error) {
	s := ss.w.store
	o := &blame.OpenInterval{Interval: i, States: blame.States{Source: s.src}}
	var sets actors.Changes
	err := s.forest.Update(true, func(tx *live.Tx) (err error) {
		from, to := s.cat.Snapshots.At(i.From.View), s.cat.Snapshots.At(i.To.View)
		if from == nil {
			return catalogue.DeletedError(i.From)
		}
		if o.Before, err = from.Tree(s.src); err != nil {
			return err
		}

		if i.IsPresent() {
			sets = ss.w.ws.PresentChanges(tx)
			o.After, err = tx.Capture(ss.w.ws.View)
			return err
		}
		if to == nil {
			return catalogue.DeletedError(i.To)
		}

		sets = to.Changes()
		o.After, err = to.Tree(s.src)
		return err
	})
	if err != nil {
		return nil, err
	}

	before, after := s.Hold(o.Before), s.Hold(o.After)
	o.Close = func() { before(); after() }
	o.ActorSet = s.parts.Union(sets)
	if i.IsPresent() { // replace the sets by their union, so that repeated calls do not make the list of sets long
		s.forest.WithLock(func(tx *live.Tx) { tx.JoinActors(ss.w.ws.View, sets.Sets, actors.Union(sets.Sets...)) })
	}

	return o, nil
}

// storeActorSets stores the actor sets of a snapshot and returns their hashes. If the snapshot was removed, it
// returns no hashes.
func (rs Remotes) storeActorSets(view uint32) (stored []cas.Hash, err error) {
	s := rs.w.store
	defer s.gc.Puts.Enter()()

	var sn *catalogue.Snapshot
	s.forest.WithReadLock(func(*live.Tx) { sn = s.cat.Snapshots.At(view) })
	if sn == nil {
		return nil, nil
	}

	err = s.parts.StoreActorSets(sn)
	s.forest.WithReadLock(func(*live.Tx) { stored = sn.Changes().Stored })

	return stored, err
}

// captureBetweenActors takes a snapshot before actor changes a file that another actor has changed since the
// newest snapshot. The caller holds the lock of the forest, so the event of the snapshot waits in
// workspaceTable.unsentEvents until workspacesForPolicies emits it.
func (s *Store) captureBetweenActors(tx *live.Tx, view uint32, actor string) error {
	w, ok := s.workspaces.byView[view]
	if !ok || !s.cat.HasRoomForActors(w.ws) {
		return nil
	}

	r := &catalogue.Capture{SnapshotRecord: CaptureOptions{Kind: info.KindActor, Message: "before a change by " + actor}.describe(s.opt.Now())}
	if err := r.PlaceNext(s.cat, tx, w.ws); err != nil {
		return err
	}
	if err := s.applier(tx).commit(r, actors.Caller{}); err != nil {
		return err
	}

	s.workspaces.unsentEvents = append(s.workspaces.unsentEvents, events.Event{Workspace: view, Action: "captured", From: r.Name})
	s.policies.Signal.Send()

	return nil
}
