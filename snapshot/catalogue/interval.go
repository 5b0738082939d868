package catalogue

import (
	"slices"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
)

// An Interval is what happened between two successive states of a workspace.
type Interval struct {
	From, To info.Info // base is the first From; the last To has no name: it is the present
	Actors   []string  // in order; also those of whose changes nothing is left
	Undoes   *Undone   // if all that happened is an undo of an actor
}

// Now reports whether the interval ends with the present state.
func (i Interval) Now() bool { return i.To.Name == "" }

// By reports whether an actor, or one with a name below it, changed anything.
func (i Interval) By(actor string) bool {
	if len(i.Actors) == 0 {
		return actor == actors.Unknown
	}
	return actors.Among(i.Actors, actor)
}

// Intervals returns the intervals of a workspace, newest first. Snapshots that are no
// earlier state of it have no place in them, see info.Info.Past.
func (c *Catalogue) Intervals(v Views, w *Workspace) (out []Interval) {
	i := Interval{Actors: w.PresentActors(v)}
	for _, sn := range slices.Backward(c.WithOrigin(w)) {
		if sn.View != w.Base && !sn.Past() {
			continue
		}
		i.From = sn.Info
		if i.Undoes != nil && i.Undoes.From != sn.View {
			i.Undoes = nil // the snapshot before it was removed
		}
		out = append(out, i)
		i = Interval{To: sn.Info, Actors: sn.Actors, Undoes: sn.Undoes}
	}
	return out
}
