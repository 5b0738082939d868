// Package attribution records the actors of the changes of a workspace since its newest snapshot, as the changes
// are made.
//
// Imported by: snapshot/live.
package attribution

import (
	"slices"
	"time"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Attribution has the actors of the changes of a workspace since its newest snapshot: for each inode, and for the
// names that were removed.
type Attribution struct {
	actors.RecentSets
	// removedNames maps each removed name to the actors that removed it or had changed its inode. It has at most
	// maxTrackedNames names.
	removedNames map[tree.Link][]string
	// newNames are the names, at most maxTrackedNames, that did not exist at the newest snapshot and were created
	// since. If such a name is removed again, its actors are not recorded in removedNames. So programs that use the
	// same names for temporary files do not conflict.
	newNames         map[tree.Link]bool
	lastSnapshotTime int64 // the time of the last NoteSnapshotIfNeeded that returned true, in ns since 1970
}

const (
	maxTrackedNames = 4096
	// minSnapshotInterval is the shortest time between two snapshots that NoteSnapshotIfNeeded requests.
	minSnapshotInterval = time.Second
)

// A NameResolver finds the inodes of names.
type NameResolver interface {
	// InoAt returns the inode number of a name, 0 if the name does not exist or cannot be read.
	InoAt(name tree.Link) uint64
	// IsOrphan reports whether an inode has no name. Then no snapshot contains it.
	IsOrphan(ino uint64) bool
}

// A Change is one change of a workspace. It changes an inode, one name or two names.
type Change struct {
	Kind       ChangeKind
	Ino        uint64    // the inode of ChangeInode and AddLink
	Name       tree.Link // the created, removed, replaced or renamed name
	SecondName tree.Link // of Rename and Replace only
}

type ChangeKind int

const (
	NoChange    ChangeKind = iota // a change of which a snapshot would contain nothing
	ChangeInode                   // the inode Ino
	AddName                       // Name gets a new inode
	AddLink                       // Name becomes another name of the inode Ino
	RemoveName
	Rename  // Name becomes SecondName
	Replace // SecondName gets the inode of Name, and Name gets another inode
)

// NoteSnapshotIfNeeded reports whether the caller must take a snapshot before a change by an actor. It must if
// another actor has changed the same inode or name since the newest snapshot, and if the last such snapshot is old
// enough. Then NoteSnapshotIfNeeded records now as the time of the snapshot. now is the time of the change, in ns
// since 1970.
func (a *Attribution) NoteSnapshotIfNeeded(c Change, actor string, now int64, w NameResolver) bool {
	if now-a.lastSnapshotTime < int64(minSnapshotInterval) || c.Kind == NoChange || a.OnlyBy(actor) {
		return false
	}
	if c.Kind == ChangeInode && w.IsOrphan(c.Ino) || !a.overlaps(c, actor, w) {
		return false
	}

	a.lastSnapshotTime = now
	return true
}

func (a *Attribution) overlaps(c Change, actor string, w NameResolver) bool {
	switch c.Kind {
	case AddName, RemoveName:
		return a.nameChangedByOthers(c.Name, actor, w)
	case AddLink:
		return a.ChangedByOthers(c.Ino, actor) || a.nameChangedByOthers(c.Name, actor, w)
	case Rename, Replace:
		return a.nameChangedByOthers(c.Name, actor, w) || a.nameChangedByOthers(c.SecondName, actor, w)
	}
	return a.ChangedByOthers(c.Ino, actor)
}

// nameChangedByOthers reports whether another actor has removed the name, or changed its inode.
func (a *Attribution) nameChangedByOthers(name tree.Link, actor string, w NameResolver) bool {
	if slices.ContainsFunc(a.removedNames[name], func(other string) bool { return other != actor }) {
		return true
	}
	ino := w.InoAt(name)
	return ino != 0 && a.ChangedByOthers(ino, actor)
}

// EarlierActors has the earlier actors of the two names of a change.
type EarlierActors struct{ ofName, ofSecondName []string }

// BeginChange returns the earlier actors of the names of a change by an actor. Then the caller makes the change,
// calls Add for each changed inode, and calls EndChange.
func (a *Attribution) BeginChange(c Change, actor string, w NameResolver) (e EarlierActors) {
	switch c.Kind {
	case NoChange, ChangeInode:
		return EarlierActors{}
	case AddName, AddLink:
		a.recordCreation(c.Name)
	case Rename, Replace:
		e.ofSecondName = a.actorsOfName(c.SecondName, actor, w)
		if w.InoAt(c.SecondName) == 0 {
			a.recordCreation(c.SecondName)
		}
	}

	e.ofName = a.actorsOfName(c.Name, actor, w)
	return e
}

// EndChange records the changes of names after the change was made. e is the result of BeginChange.
func (a *Attribution) EndChange(c Change, e EarlierActors, actor string, w NameResolver) {
	switch c.Kind {
	case AddName, AddLink, Replace:
		a.inheritActors(c.Name, e.ofName, w)
	case RemoveName, Rename:
		a.recordRemoval(c.Name, append(e.ofName, actor))
	}
	a.inheritActors(c.SecondName, e.ofSecondName, w)
}

// actorsOfName returns the actors that, since the newest snapshot, removed a name, or changed an inode that the
// name has or had. If only the given actor has changed the workspace, it returns none.
func (a *Attribution) actorsOfName(name tree.Link, actor string, w NameResolver) []string {
	if a.OnlyBy(actor) {
		return nil
	}

	by := slices.Clone(a.removedNames[name])
	if ino := w.InoAt(name); ino != 0 {
		by = append(by, a.ActorsOf(ino)...)
	}

	slices.Sort(by)

	return slices.Compact(by)
}

// recordCreation adds a created name to newNames, unless the name is in removedNames.
func (a *Attribution) recordCreation(name tree.Link) {
	if _, was := a.removedNames[name]; was || len(a.newNames) >= maxTrackedNames {
		return
	}
	if a.newNames == nil {
		a.newNames = make(map[tree.Link]bool)
	}

	a.newNames[name] = true
}

// recordRemoval records that a name was removed. by has the actor that removed it, and the actors that had changed
// its inode.
func (a *Attribution) recordRemoval(name tree.Link, by []string) {
	if a.newNames[name] {
		delete(a.newNames, name)
		return
	}
	if len(a.removedNames) >= maxTrackedNames {
		return
	}
	if a.removedNames == nil {
		a.removedNames = make(map[tree.Link][]string)
	}

	a.removedNames[name] = by
}

// inheritActors attributes the new inode of a name also to the actors of the name's old inode, which are in before.
// Text editors write a new file and rename it over the old file. Without inheritActors, an undo would not find out
// that two actors have changed one path.
func (a *Attribution) inheritActors(name tree.Link, before []string, w NameResolver) {
	if len(before) == 0 {
		return
	}
	if ino := w.InoAt(name); ino != 0 {
		for _, by := range before {
			a.Add(ino, by)
		}
	}
}

// EndInterval begins a new interval at a snapshot that is taken now. It returns the frozen actor sets of the
// interval that ends.
func (a *Attribution) EndInterval() []*actors.Set {
	a.removedNames, a.newNames = nil, nil
	return a.RecentSets.EndInterval()
}
