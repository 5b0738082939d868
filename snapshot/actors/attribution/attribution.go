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
	// minSnapshotInterval is the shortest time between two snapshots between actors.
	minSnapshotInterval = time.Second
)

// A Workspace finds the inodes of names.
type Workspace interface {
	// InoAt returns the inode number of a name, 0 if the name does not exist or cannot be read.
	InoAt(name tree.Link) uint64
	// IsOrphan reports whether an inode has no name. Then no snapshot contains it.
	IsOrphan(ino uint64) bool
}

// A Change is one change of a workspace: of an inode, or of one or two names.
type Change struct {
	Kind ChangeKind
	Ino  uint64    // the inode of ChangeInode and AddLink
	Name tree.Link // the created, removed or renamed name
	To   tree.Link // the new name of Rename, and the second name of Replace
}

type ChangeKind int

const (
	NoChange    ChangeKind = iota // nothing that a snapshot would have
	ChangeInode                   // the inode Ino
	AddName                       // Name gets a new inode
	AddLink                       // Name becomes another name of the inode Ino
	RemoveName
	Rename  // Name becomes To
	Replace // To gets the inode of Name, and Name gets another inode
)

// NeedsSnapshot reports whether the change is to an inode or a name that an actor other than the given one has changed
// since the newest snapshot, and the last snapshot between two actors was long enough ago. now is the time of the
// change in ns since 1970. If so, the caller takes
// a snapshot.
func (a *Attribution) NeedsSnapshot(c Change, actor string, now int64, w Workspace) bool {
	if now-a.lastSnapshot < int64(minSnapshotInterval) || c.Kind == NoChange || a.OnlyBy(actor) {
		return false
	}
	if c.Kind == ChangeInode && w.IsOrphan(c.Ino) || !a.overlaps(c, actor, w) {
		return false
	}

	a.lastSnapshot = now
	return true
}

func (a *Attribution) overlaps(c Change, actor string, w Workspace) bool {
	switch c.Kind {
	case AddName, RemoveName:
		return a.nameOverlaps(c.Name, actor, w)
	case AddLink:
		return a.ChangedByOthers(c.Ino, actor) || a.nameOverlaps(c.Name, actor, w)
	case Rename, Replace:
		return a.nameOverlaps(c.Name, actor, w) || a.nameOverlaps(c.To, actor, w)
	}
	return a.ChangedByOthers(c.Ino, actor)
}

// nameOverlaps reports whether another actor has removed the name, or changed its inode.
func (a *Attribution) nameOverlaps(name tree.Link, actor string, w Workspace) bool {
	if slices.ContainsFunc(a.removedNames[name], func(other string) bool { return other != actor }) {
		return true
	}
	ino := w.InoAt(name)
	return ino != 0 && a.ChangedByOthers(ino, actor)
}

// Earlier has the earlier actors of the two names of a change.
type Earlier struct{ name, to []string }

// BeginChange returns the earlier actors of the names of a change by an actor. The caller makes the change, and then
// calls EndChange. Add records the changed inodes.
func (a *Attribution) BeginChange(c Change, actor string, w Workspace) (e Earlier) {
	switch c.Kind {
	case NoChange, ChangeInode:
		return Earlier{}
	case AddName, AddLink:
		a.recordCreation(c.Name)
	case Rename, Replace:
		e.to = a.actorsAt(c.To, actor, w)
		if w.InoAt(c.To) == 0 {
			a.recordCreation(c.To)
		}
	}

	e.name = a.actorsAt(c.Name, actor, w)
	return e
}

// EndChange records the changes of names after the change was made. e is the result of BeginChange.
func (a *Attribution) EndChange(c Change, e Earlier, actor string, w Workspace) {
	switch c.Kind {
	case AddName, AddLink, Replace:
		a.inheritActors(c.Name, e.name, w)
	case RemoveName, Rename:
		a.recordRemoval(c.Name, append(e.name, actor))
	}
	a.inheritActors(c.To, e.to, w)
}

// actorsAt returns the actors that, since the newest snapshot, removed a name, or changed its present or an
// earlier inode. If only the given actor has changed the workspace, it returns none.
func (a *Attribution) actorsAt(name tree.Link, actor string, w Workspace) []string {
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
	if _, was := a.removedNames[name]; was || len(a.newNames) >= maxNames {
		return
	}
	if a.newNames == nil {
		a.newNames = make(map[tree.Link]bool)
	}

	a.newNames[name] = true
}

// recordRemoval records that a name was removed. by are the actor that removed it, and the actors that had changed
// its inode.
func (a *Attribution) recordRemoval(name tree.Link, by []string) {
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

	a.removedNames[name] = by
}

// inheritActors also attributes the new inode of a name to before, the actors of the name's old inode. Text
// editors write a new file and rename it over the old file. Without inheritActors, an undo would not find out that
// two actors have changed one path.
func (a *Attribution) inheritActors(name tree.Link, before []string, w Workspace) {
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
