package catalogue

import (
	"slices"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
)

// An Interval is the time between two successive snapshots of a workspace.
type Interval struct {
	From, To info.Info  // the oldest interval begins with the base; the newest ends with the present state, without a name
	Actors   []string   // the actors that made changes, even if these were all overwritten; sorted
	Undoes   *ActorUndo // set if the only change is an undo of an actor
}

// IsPresent reports whether the interval ends with the present state.
func (i Interval) IsPresent() bool { return i.To.Name == "" }

// ChangedBy reports whether an actor, or an actor with a name below the actor's name, made changes.
func (i Interval) ChangedBy(actor string) bool {
	if len(i.Actors) == 0 {
		return actor == actors.Unknown
	}
	return actors.ContainsOrBelow(i.Actors, actor)
}

// Intervals returns the intervals of a workspace, newest first. It leaves out snapshots that are not
// past states of the workspace, see info.Info.IsPastState.
func (c *Catalogue) Intervals(v Views, w *Workspace) (out []Interval) {
	i := Interval{Actors: w.PresentActors(v)}

	for _, sn := range slices.Backward(c.SnapshotsWithBase(w)) {
		if sn.View != w.Base && !sn.IsPastState() {
			continue
		}
		i.From = sn.Info
		if i.Undoes != nil && i.Undoes.From != sn.View {
			i.Undoes = nil // the snapshot that preceded the undo does not exist any more, so the interval has other changes, too
		}

		out = append(out, i)
		i = Interval{To: sn.Info, Actors: sn.Actors, Undoes: sn.Undoes}
	}

	return out
}
