package snapshot

import (
	"slices"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
)

// An Interval is what happened between two successive states of a workspace.
type Interval struct {
	From, To Info     // base is the first From; the last To has no name: it is the present
	Actors   []string // in order; also those of whose changes nothing is left

	undoes *catalogue.Undone // if all that happened is an undo of an actor
}

// Now reports whether the interval ends with the present state.
func (i Interval) Now() bool { return i.To.Name == "" }

// Intervals returns the intervals of the workspace, newest first. Snapshots that are no
// earlier state of it have no place in them, see Info.Past.
func (ss Snapshots) Intervals() []Interval {
	var out []Interval
	ss.w.store.look(func(tx *live.Tx) {
		i := Interval{Actors: ss.w.ws.PresentActors(tx)}
		for _, sn := range slices.Backward(ss.w.store.cat.WithOrigin(ss.w.ws)) {
			if sn.View != ss.w.ws.Base && !sn.Past() {
				continue
			}
			i.From = sn.Info
			if i.undoes != nil && i.undoes.From != sn.View {
				i.undoes = nil // the snapshot before it was removed
			}
			out = append(out, i)
			i = Interval{To: sn.Info, Actors: sn.Actors, undoes: sn.Undoes}
		}
	})
	return out
}

// An OpenInterval is an interval with the states at its ends, which are kept until Close,
// once.
type OpenInterval struct {
	Interval
	graft.States
	Close func()
}

// Open returns an interval with its states.
func (ss Snapshots) Open(i Interval) (*OpenInterval, error) {
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
	o.Set = s.union(sets)
	if i.Now() { // so that a caller that asks often makes no long list
		s.alter(func(tx *live.Tx) { tx.JoinActors(ss.w.ws.View, sets.Sets, actors.Union(sets.Sets...)) })
	}
	return o, nil
}
