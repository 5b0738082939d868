package live

import (
	"slices"
	"time"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// As returns the forest for changes by an actor. Changes by "" are by the actor that wrote
// the inode last, if that is known: the kernel writes pages of a shared mapping back on
// no known process.
func (f *Forest) As(actor string) *Forest { return &Forest{f.forest, actor} }

// attribution has the actors of the changes of a view since its newest snapshot.
type attribution struct {
	sets   []*actors.Set
	frozen bool          // the last set does not grow any more
	last   []*actors.Set // those of the interval before
	// vacated are names that were removed, maxVacated at most, and by which actor.
	vacated map[tree.Link]string
	split   int64 // when a snapshot last came between two actors, in ns since 1970
}

const (
	maxVacated = 4096
	// splitInterval is the least time between two such snapshots.
	splitInterval = time.Second
)

// growing returns the set that changes are added to.
func (a *attribution) growing() *actors.Set {
	if a.frozen || len(a.sets) == 0 {
		a.sets, a.frozen = append(slices.Clip(a.sets), &actors.Set{}), false
	}
	return a.sets[len(a.sets)-1]
}

// freeze returns the sets, which do not change from then on.
func (a *attribution) freeze() []*actors.Set {
	a.frozen = true
	return a.sets
}

// next begins another interval.
func (a *attribution) next() []*actors.Set {
	sets := a.freeze()
	a.last, a.sets, a.frozen, a.vacated = sets, nil, false, nil
	return sets
}

// others reports whether an inode was changed by another actor.
func (a *attribution) others(ino uint64, by string) bool {
	return slices.ContainsFunc(a.sets, func(s *actors.Set) bool { return s.Others(ino, by) })
}

// lastWriter returns the one actor that changed an inode in this interval or the one before.
func (a *attribution) lastWriter(ino uint64) string {
	for _, sets := range [][]*actors.Set{a.sets, a.last} {
		for _, s := range slices.Backward(sets) {
			if by := s.Of(ino); len(by) == 1 {
				return by[0]
			}
		}
	}
	return actors.Unknown
}

// mark attributes the change of an inode to the actor that the lock is held for.
func (v *view) mark(ino uint64) {
	if by := v.trees.mu.by; by != "" { // else it is an orphan
		v.attribution.growing().Add(ino, by)
	}
}

// mark is view.mark for the actors of an edit.
func (e *Edit) mark(ino uint64) {
	for _, by := range e.by {
		e.attribution.growing().Add(ino, by)
	}
}

// vacate notes that a name was removed.
func (v *view) vacate(parent uint64, name string) {
	a := &v.attribution
	if len(a.vacated) >= maxVacated {
		return
	}
	if a.vacated == nil {
		a.vacated = make(map[tree.Link]string)
	}
	a.vacated[tree.Link{Parent: parent, Name: name}] = v.trees.mu.by
}

// attribute finds the actor of a change, and journals it if it is another one than that of
// the change before. If the change is to what another actor changed since the newest
// snapshot, a snapshot is taken first. The lock is held.
func (v *view) attribute(r *record) error {
	t := v.trees
	if t.mu.by == "" {
		t.mu.by = v.attribution.lastWriter(r.ino)
	}
	if t.overlap != nil && r.time-v.attribution.split >= int64(splitInterval) && v.overlaps(r, t.mu.by) {
		v.attribution.split = r.time
		t.overlap(v.id, t.mu.by)
	}
	if t.mu.failed != nil {
		return t.mu.failed
	}
	if t.mu.by == t.mu.journaled {
		return nil
	}
	if _, err := t.log.AppendUrgent(recActor, []byte(t.mu.by), nil); err != nil {
		return err
	}
	t.mu.journaled = t.mu.by
	return nil
}

// overlaps reports whether a record is about what an actor other than by changed.
func (v *view) overlaps(r *record, by string) bool {
	a := &v.attribution
	if !slices.ContainsFunc(a.sets, func(s *actors.Set) bool { return !s.OnlyBy(by) }) {
		return false
	}
	entry := func(parent uint64, name string) bool {
		if other, ok := a.vacated[tree.Link{Parent: parent, Name: name}]; ok && other != by {
			return true
		}
		dir, err := v.state.Get(v.source(), parent)
		if err != nil {
			return false // prepare returns the error
		}
		e, found, err := dir.Dir.Lookup(v.source(), name)
		return err == nil && found && a.others(e.Ino, by)
	}
	switch r.kind {
	case recCreate, recUnlink, recRelink:
		return entry(r.parent, r.name)
	case recLink:
		return a.others(r.ino, by) || entry(r.parent, r.name)
	case recRename:
		return entry(r.parent, r.name) || entry(r.parent2, r.name2)
	case recSetAttr:
		return r.set.marks() && a.others(r.ino, by)
	}
	return a.others(r.ino, by)
}

// marks reports whether a change is more than one of the time of access.
func (s *SetAttr) marks() bool {
	return s.Mode != nil || s.UID != nil || s.GID != nil || s.Size != nil || s.Mtime != nil || s.KillPriv
}

// Actors returns the sets of the actors of a view's changes since its newest snapshot.
// They do not change any more.
func (tx *Tx) Actors(view uint32) []*actors.Set { return tx.attribution(view).freeze() }

// attribution returns that of a view, an empty one if there is no such view.
func (tx *Tx) attribution(view uint32) *attribution {
	if v, ok := tx.f.mu.views[view]; ok {
		return &v.attribution
	}
	return &attribution{}
}

// ActorNames are the actors in the sets of a view, in order.
func (tx *Tx) ActorNames(view uint32) []string {
	var out []string
	for _, s := range tx.attribution(view).sets {
		out = append(out, s.Actors()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// NextInterval is Actors for a snapshot: what is changed from now on is in other sets.
func (tx *Tx) NextInterval(view uint32) []*actors.Set { return tx.attribution(view).next() }

// ReturnActors adds sets of the interval before, whose snapshot was removed.
func (tx *Tx) ReturnActors(view uint32, sets []*actors.Set) {
	if a := tx.attribution(view); len(sets) > 0 {
		a.frozen = a.frozen || len(a.sets) == 0
		a.sets = append(slices.Clip(sets), a.sets...)
	}
}

// JoinActors puts one set in the place of the first that Actors returned, if they are those
// of the view still; none if with is nil.
func (tx *Tx) JoinActors(view uint32, sets []*actors.Set, with *actors.Set) bool {
	a := tx.attribution(view)
	if len(sets) == 0 || len(a.sets) < len(sets) || !slices.Equal(a.sets[:len(sets)], sets) {
		return false
	}
	rest := a.sets[len(sets):]
	a.sets = nil
	if with != nil {
		a.sets = append(a.sets, with)
	}
	a.sets = append(a.sets, rest...)
	a.frozen = a.frozen || len(rest) == 0
	return true
}

// actorsOf are the actors of an edit through f.
func (f *Forest) actorsOf() []string {
	if f.by == "" {
		return []string{actors.Unknown}
	}
	return []string{f.by}
}

// Actors returns which inodes the edit changed, by which actors.
func (e *Edit) Actors() *actors.Set { return e.attribution.growing() }

// SetActors is Actors the other way round, for recovery.
func (e *Edit) SetActors(s *actors.Set) { e.attribution.sets = []*actors.Set{s} }

// ForgetActor makes the next change journal its actor: recovery will begin there.
func (tx *Tx) ForgetActor() { tx.f.mu.journaled = actors.Unknown }
