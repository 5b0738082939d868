package snapshot

import (
	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Intervals returns the intervals of the workspace, newest first.
func (ss Snapshots) Intervals() (all []catalogue.Interval) {
	ss.w.store.look(func(tx *live.Tx) { all = ss.w.store.cat.Intervals(tx, ss.w.ws) })
	return all
}

// An OpenInterval is an interval with the states at its ends, which are kept until Close,
// once.
type OpenInterval struct {
	catalogue.Interval
	graft.States
	Close func()
}

// Open returns an interval with its states.
func (ss Snapshots) Open(i catalogue.Interval) (*OpenInterval, error) {
	s := ss.w.store
	o := &OpenInterval{Interval: i, States: graft.States{Source: s.src}}
	var sets actors.Changes
	err := s.forest.Update(true, func(tx *live.Tx) (err error) {
		from, to := s.cat.Snapshots[i.From.View], s.cat.Snapshots[i.To.View]
		if from == nil {
			return catalogue.RemovedMeanwhile(i.From)
		}
		if o.Before, err = from.Tree(s.src); err != nil {
			return err
		}
		if i.Now() {
			sets = ss.w.ws.PresentChanges(tx)
			o.After, err = tx.Capture(ss.w.ws.View)
			return err
		}
		if to == nil {
			return catalogue.RemovedMeanwhile(i.To)
		}
		sets = to.Changes
		o.After, err = to.Tree(s.src)
		return err
	})
	if err != nil {
		return nil, err
	}
	before, after := s.Hold(o.Before), s.Hold(o.After)
	o.Close = func() { before(); after() }
	o.Set = s.parts.Union(sets)
	if i.Now() { // so that a caller that asks often makes no long list
		s.alter(func(tx *live.Tx) { tx.JoinActors(ss.w.ws.View, sets.Sets, actors.Union(sets.Sets...)) })
	}
	return o, nil
}

// actorSets are the objects of the sets of a snapshot.
func (rs Remotes) actorSets(view uint32) (stored []cas.Hash, err error) {
	s := rs.w.store
	defer s.gc.Puts.Enter()()
	var sn *catalogue.Snapshot
	s.look(func(*live.Tx) { sn = s.cat.Snapshots[view] })
	if sn != nil {
		err = s.parts.StoreChanges(sn)
		s.look(func(*live.Tx) { stored = sn.Changes.Stored })
	}
	return stored, err
}

// between takes a snapshot before an actor changes what another one changed.
func (s entries) between(tx *live.Tx, view uint32, by string) error {
	w, ok := s.workspaces[view]
	if !ok || !s.cat.HasRoomForActors(w.ws) {
		return nil
	}
	r, err := s.cat.NewSnapshot(tx, w.ws, CaptureOptions{Kind: info.KindActor, Message: "before a change by " + by}.describe(s.opt.Now()))
	if err != nil {
		return err
	}
	if err := s.commit(tx, &catalogue.Capture{SnapshotRecord: r}, actors.Caller{}); err != nil {
		return err
	}
	s.captured = append(s.captured, events.Event{Workspace: view, Action: "captured", From: r.Name})
	s.keep.Signal.Up()
	return nil
}
