package live

import (
	"slices"
	"time"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// WithActor returns the writer for changes by an actor. A change by the actor "" is attributed to the last known
// writer of the inode: when the kernel writes back pages of a shared mapping, it names no process.
func (w Writer) WithActor(actor string) Writer { return w.ForRequest(actor, 0) }

// An attribution records the actors of the changes of a view since its newest snapshot.
type attribution struct {
	actors.RecentSets
	// removedNames maps each removed name to the actors that removed it or had changed its inode. It has at most
	// maxNames names.
	removedNames map[tree.Link][]string
	// newNames are the names, at most maxNames, that did not exist at the newest snapshot and were created since.
	// If such a name is removed again, its actors are not recorded in removedNames. So programs that use the same
	// names for temporary files do not conflict.
	newNames     map[tree.Link]bool
	lastSnapshot int64 // the time of the last snapshot between two actors, in ns since 1970
}

const (
	maxNames = 4096
	// minSnapshotInterval is the shortest time between two snapshots that attribute takes.
	minSnapshotInterval = time.Second
)

// markChanged attributes the change of an inode to trees.mu.actor, the actor of the present change.
func (v *view) markChanged(ino uint64) {
	if by := v.trees.mu.actor; by != "" { // "" for an orphan without a known writer
		v.attribution.Add(ino, by)
	}
}

// markChanged attributes the change of an inode to the actors of the edit.
func (e *Edit) markChanged(ino uint64) {
	for _, by := range e.stepActors {
		e.attribution.Add(ino, by)
	}
}

// recordRemoval records that a name was removed. before are the actors that had changed the inode of the name.
func (v *view) recordRemoval(name tree.Link, before []string) {
	a := &v.attribution
	if a.newNames[name] {
		delete(a.newNames, name)
		return
	}
	if len(a.removedNames) >= maxNames {
		return
	}
	if a.removedNames == nil {
		a.removedNames = make(map[tree.Link][]string)
	}

	a.removedNames[name] = append(before, v.trees.mu.actor)
}

// recordCreation adds a created name to newNames, unless the name is in removedNames.
func (v *view) recordCreation(name tree.Link) {
	a := &v.attribution
	if _, was := a.removedNames[name]; was || len(a.newNames) >= maxNames {
		return
	}
	if a.newNames == nil {
		a.newNames = make(map[tree.Link]bool)
	}

	a.newNames[name] = true
}

// actorsAt returns the actors that, since the newest snapshot, removed a name, or changed its present or an
// earlier inode. If only the present actor has changed the view, it returns none.
func (v *view) actorsAt(name tree.Link) []string {
	a := &v.attribution
	if a.OnlyBy(v.trees.mu.actor) {
		return nil
	}

	by := slices.Clone(a.removedNames[name])
	if ino := v.inoAt(name); ino != 0 {
		by = append(by, a.ActorsOf(ino)...)
	}

	slices.Sort(by)

	return slices.Compact(by)
}

// inoAt returns the inode number of a name, 0 if the name does not exist.
func (v *view) inoAt(name tree.Link) uint64 {
	dir, err := v.state.Get(v.source(), name.Parent)
	if err != nil {
		return 0
	}
	e, _, _ := dir.Dir.Lookup(v.source(), name.Name)
	return e.Ino
}

// inheritActors also attributes the new inode of a name to before, the actors of the name's old inode. Text
// editors write a new file and rename it over the old file. Without inheritActors, an undo would not find out that
// two actors have changed one path.
func (v *view) inheritActors(name tree.Link, before []string) {
	if len(before) == 0 {
		return
	}

	if ino := v.inoAt(name); ino != 0 {
		for _, by := range before {
			v.attribution.Add(ino, by)
		}
	}
}

// attribute finds the actor of a change. If the previous change was by another actor, it appends a record
// of the actor to the journal. If another actor has changed the same file or name since the newest
// snapshot, attribute first takes a snapshot (Options.Overlap). The caller holds the forest's lock.
func (v *view) attribute(r *record) error {
	t := v.trees
	if t.mu.actor == "" {
		t.mu.actor = v.attribution.LastWriter(r.ino)
	}

	if t.overlap != nil && r.time-v.attribution.lastSnapshot >= int64(minSnapshotInterval) && v.overlaps(r, t.mu.actor) {
		v.attribution.lastSnapshot = r.time
		t.overlap(v.id, t.mu.actor)
	}
	if t.mu.failed != nil {
		return t.mu.failed
	}
	if t.mu.actor == t.mu.journaled {
		return nil
	}
	if _, err := t.log.AppendUrgent(recActor, []byte(t.mu.actor), nil); err != nil {
		return err
	}

	t.mu.journaled = t.mu.actor

	return nil
}

// overlaps reports whether a record changes an inode or a name that an actor other than the given one has changed
// since the newest snapshot.
func (v *view) overlaps(r *record, actor string) bool {
	a := &v.attribution
	if a.OnlyBy(actor) {
		return false
	}
	if n, err := v.inode(r.ino); err == nil && n.Nlink == 0 && r.kind != recLink {
		return false // an orphan, which no snapshot contains
	}

	entryOverlaps := func(parent uint64, name string) bool {
		others := a.removedNames[tree.Link{Parent: parent, Name: name}]
		if slices.ContainsFunc(others, func(other string) bool { return other != actor }) {
			return true
		}

		dir, err := v.state.Get(v.source(), parent)
		if err != nil {
			return false // prepare will return the same error
		}

		e, found, err := dir.Dir.Lookup(v.source(), name)
		return err == nil && found && a.ChangedByOthers(e.Ino, actor)
	}

	switch r.kind {
	case recCreate, recUnlink:
		return entryOverlaps(r.parent, r.name)
	case recLink:
		return a.ChangedByOthers(r.ino, actor) || entryOverlaps(r.parent, r.name)
	case recRename:
		return entryOverlaps(r.parent, r.name) || entryOverlaps(r.to.Parent, r.to.Name)
	case recSetAttr:
		return r.setAttr.CountsAsChange() && a.ChangedByOthers(r.ino, actor)
	}

	return a.ChangedByOthers(r.ino, actor)
}

// viewActors are the methods of Tx for the actors of the changes of each view.
type viewActors struct{ trees *trees }

// Actors freezes and returns the actor sets of a view's changes since its newest snapshot. Later changes
// are recorded in new sets.
func (tx viewActors) Actors(view uint32) []*actors.Set { return tx.attribution(view).Freeze() }

// attribution returns the attribution of a view, an empty one if the view does not exist.
func (tx viewActors) attribution(view uint32) *attribution {
	if v, ok := tx.trees.mu.views[view]; ok {
		return &v.attribution
	}
	return &attribution{}
}

// ActorNames returns the names of the actors in the sets of a view, sorted.
func (tx viewActors) ActorNames(view uint32) []string { return tx.attribution(view).Names() }

// NextInterval begins a new interval at a snapshot that is taken now. It returns the frozen actor sets of the
// interval that ends.
func (tx viewActors) NextInterval(view uint32) []*actors.Set {
	tx.trees.changed.MarkChanged(view)
	a := tx.attribution(view)
	a.removedNames, a.newNames = nil, nil
	return a.NextInterval()
}

// ReturnActors adds the sets of the previous interval to the present interval, because the snapshot
// between the two was removed.
func (tx viewActors) ReturnActors(view uint32, sets []*actors.Set) {
	tx.trees.changed.MarkChanged(view)
	tx.attribution(view).Return(sets)
}

// JoinActors replaces sets, which an earlier call of Actors has returned, by the set joined, or by none if joined
// is nil. See actors.RecentSets.Join.
func (tx viewActors) JoinActors(view uint32, sets []*actors.Set, joined *actors.Set) bool {
	return tx.attribution(view).Join(sets, joined)
}

// Actors returns the inodes that the edit has changed so far, and the actors of each.
func (e *Edit) Actors() *actors.Set { return e.attribution.OpenSet() }

// SetActors replaces the result of Actors by a set that recovery has read.
func (e *Edit) SetActors(s *actors.Set) {
	e.attribution = actors.RecentSets{}
	e.attribution.Return([]*actors.Set{s})
}

// ForgetActor makes the next change append a record of its actor. A checkpoint calls it: a recovery that begins at
// the checkpoint attributes the changes before the first record of an actor to actors.Unknown. The next change
// appends a record even for actors.Unknown: if the checkpoint fails, recovery begins earlier and has read records
// of other actors.
func (tx viewActors) ForgetActor() { tx.trees.mu.journaled = noActor }

// noActor is a text that is not the name of an actor.
const noActor = "\x00"
