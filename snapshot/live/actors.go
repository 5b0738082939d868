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
func (f *Forest) As(actor string) *Forest { return f.For(actor, 0) }

// attribution has the actors of the changes of a view.
type attribution struct {
	actors.Recent
	// vacated are names that were removed since the newest snapshot, maxVacated at most, and the
	// actors that changed what they led to, or removed them.
	vacated map[tree.Link][]string
	// fresh are names that were made since the newest snapshot where there was none, maxVacated at
	// most. One that is removed again was never there for an undo: programs share names of
	// temporary files.
	fresh map[tree.Link]bool
	split int64 // when a snapshot last came between two actors, in ns since 1970
}

const (
	maxVacated = 4096
	// splitInterval is the least time between two such snapshots.
	splitInterval = time.Second
)

// mark attributes the change of an inode to the actor that the lock is held for.
func (v *view) mark(ino uint64) {
	if by := v.trees.mu.by; by != "" { // else it is an orphan
		v.attribution.Add(ino, by)
	}
}

// mark is view.mark for the actors of an edit.
func (e *Edit) mark(ino uint64) {
	for _, by := range e.by {
		e.attribution.Add(ino, by)
	}
}

// vacate notes that a name was removed that led to what some actors had changed.
func (v *view) vacate(name tree.Link, before []string) {
	a := &v.attribution
	if a.fresh[name] {
		delete(a.fresh, name)
		return
	}
	if len(a.vacated) >= maxVacated {
		return
	}
	if a.vacated == nil {
		a.vacated = make(map[tree.Link][]string)
	}
	a.vacated[name] = append(before, v.trees.mu.by)
}

// appear notes that a name is made that leads to nothing.
func (v *view) appear(name tree.Link) {
	a := &v.attribution
	if _, was := a.vacated[name]; was || len(a.fresh) >= maxVacated {
		return
	}
	if a.fresh == nil {
		a.fresh = make(map[tree.Link]bool)
	}
	a.fresh[name] = true
}

// actorsAt returns the actors, other than the present one alone, that changed what a name leads to,
// or led to, since the newest snapshot.
func (v *view) actorsAt(name tree.Link) []string {
	a := &v.attribution
	if a.OnlyBy(v.trees.mu.by) {
		return nil
	}
	by := slices.Clone(a.vacated[name])
	if ino := v.inoAt(name); ino != 0 {
		by = append(by, a.Of(ino)...)
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// inoAt returns the inode that a name leads to, 0 if there is none.
func (v *view) inoAt(name tree.Link) uint64 {
	dir, err := v.state.Get(v.source(), name.Parent)
	if err != nil {
		return 0
	}
	e, _, _ := dir.Dir.Lookup(v.source(), name.Name)
	return e.Ino
}

// succeed attributes what a name leads to now to the actors of what it led to before, too. Editors
// write a new file and rename it: only so does an undo find out that two actors changed one path.
func (v *view) succeed(name tree.Link, before []string) {
	if len(before) == 0 {
		return
	}
	if ino := v.inoAt(name); ino != 0 {
		for _, by := range before {
			v.attribution.Add(ino, by)
		}
	}
}

// attribute finds the actor of a change, and journals it if it is another one than that of
// the change before. If the change is to what another actor changed since the newest
// snapshot, a snapshot is taken first. The lock is held.
func (v *view) attribute(r *record) error {
	t := v.trees
	if t.mu.by == "" {
		t.mu.by = v.attribution.LastWriter(r.ino)
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
	if a.OnlyBy(by) {
		return false
	}
	if n, err := v.inode(r.ino); err == nil && n.Nlink == 0 && r.kind != recLink {
		return false // no snapshot has it
	}
	entry := func(parent uint64, name string) bool {
		others := a.vacated[tree.Link{Parent: parent, Name: name}]
		if slices.ContainsFunc(others, func(other string) bool { return other != by }) {
			return true
		}
		dir, err := v.state.Get(v.source(), parent)
		if err != nil {
			return false // prepare returns the error
		}
		e, found, err := dir.Dir.Lookup(v.source(), name)
		return err == nil && found && a.Others(e.Ino, by)
	}
	switch r.kind {
	case recCreate, recUnlink:
		return entry(r.parent, r.name)
	case recLink:
		return a.Others(r.ino, by) || entry(r.parent, r.name)
	case recRename:
		return entry(r.parent, r.name) || entry(r.parent2, r.name2)
	case recSetAttr:
		return r.set.Marks() && a.Others(r.ino, by)
	}
	return a.Others(r.ino, by)
}

// attributions are the actors of the changes of each view.
type attributions struct{ f *Forest }

// Actors returns the sets of the actors of a view's changes since its newest snapshot.
// They do not change any more.
func (tx attributions) Actors(view uint32) []*actors.Set { return tx.attribution(view).Freeze() }

// attribution returns that of a view, an empty one if there is no such view.
func (tx attributions) attribution(view uint32) *attribution {
	if v, ok := tx.f.mu.views[view]; ok {
		return &v.attribution
	}
	return &attribution{}
}

// ActorNames are the actors in the sets of a view, in order.
func (tx attributions) ActorNames(view uint32) []string { return tx.attribution(view).Names() }

// NextInterval is Actors for a snapshot: what is changed from now on is in other sets.
func (tx attributions) NextInterval(view uint32) []*actors.Set {
	tx.f.changed.Change(view)
	a := tx.attribution(view)
	a.vacated, a.fresh = nil, nil
	return a.Next()
}

// ReturnActors adds sets of the interval before, whose snapshot was removed.
func (tx attributions) ReturnActors(view uint32, sets []*actors.Set) {
	tx.f.changed.Change(view)
	tx.attribution(view).Return(sets)
}

// JoinActors puts one set in the place of the first that Actors returned, see
// actors.Recent.Join.
func (tx attributions) JoinActors(view uint32, sets []*actors.Set, with *actors.Set) bool {
	return tx.attribution(view).Join(sets, with)
}

// actorsOf are the actors of an edit through f.
func (f *Forest) actorsOf() []string {
	if f.by == "" {
		return []string{actors.Unknown}
	}
	return []string{f.by}
}

// Actors returns which inodes the edit changed, by which actors.
func (e *Edit) Actors() *actors.Set { return e.attribution.Growing() }

// SetActors is Actors the other way round, for recovery.
func (e *Edit) SetActors(s *actors.Set) {
	e.attribution = actors.Recent{}
	e.attribution.Return([]*actors.Set{s})
}

// ForgetActor makes the next change journal its actor: recovery will begin there.
// It does so for every actor: recovery begins further back if the checkpoint fails.
func (tx attributions) ForgetActor() { tx.f.mu.journaled = noActor }

// noActor is not the name of an actor.
const noActor = "\x00"
