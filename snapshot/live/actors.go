package live

import (
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/actors/attribution"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// WithActor returns the writer for changes by an actor. A change by the actor "" is attributed to the last known
// writer of the inode: when the kernel writes back pages of a shared mapping, it names no process.
func (w Writer) WithActor(actor string) Writer { return w.ForRequest(actor, 0) }

// attributeInode attributes the change of an inode to trees.mu.actor, the actor of the present change.
func (v *view) attributeInode(ino uint64) {
	if by := v.trees.mu.actor; by != "" { // "" for an orphan without a known writer
		v.attribution.Add(ino, by)
	}
}

// attributeInode attributes the change of an inode to the actors of the edit.
func (e *Edit) attributeInode(ino uint64) {
	for _, by := range e.stepActors {
		e.attribution.Add(ino, by)
	}
}

// InoAt returns the inode number of a name, 0 if the name does not exist.
func (v *view) InoAt(name tree.Link) uint64 {
	dir, err := v.state.Get(v.source(), name.Parent)
	if err != nil {
		return 0
	}
	e, _, _ := dir.Dir.Lookup(v.source(), name.Name)
	return e.Ino
}

// IsOrphan reports whether an inode has no name.
func (v *view) IsOrphan(ino uint64) bool {
	n, err := v.inode(ino)
	return err == nil && n.Nlink == 0
}

// attributedChange returns the change that the record makes, for the attribution of a view.
func (r *record) attributedChange() attribution.Change {
	c := attribution.Change{Kind: attribution.ChangeInode, Ino: r.ino, Name: tree.Link{Parent: r.parent, Name: r.name}, SecondName: r.newLink}

	switch {
	case r.kind == recCreate && r.name == "", r.kind == recSetAttr && !r.setAttr.CountsAsChange():
		c.Kind = attribution.NoChange
	case r.kind == recCreate:
		c.Kind = attribution.AddName
	case r.kind == recLink:
		c.Kind = attribution.AddLink
	case r.kind == recUnlink:
		c.Kind = attribution.RemoveName
	case r.kind == recRename && r.flags&(unix.RENAME_EXCHANGE|unix.RENAME_WHITEOUT) != 0:
		c.Kind = attribution.Replace
	case r.kind == recRename:
		c.Kind = attribution.Rename
	}

	return c
}

// findAndJournalActor finds the actor of a change. If the previous change was by another actor, it appends a record
// of the actor to the journal. If another actor has changed the same file or name since the newest
// snapshot, findAndJournalActor first takes a snapshot (Options.CaptureOnOverlap). The caller holds the forest's lock.
func (v *view) findAndJournalActor(r *record) error {
	t := v.trees
	if t.mu.actor == "" {
		t.mu.actor = v.attribution.LastWriter(r.ino)
	}

	if t.captureOnOverlap != nil && v.attribution.NoteSnapshotIfNeeded(r.attributedChange(), t.mu.actor, r.time, v) {
		t.captureOnOverlap(v.id, t.mu.actor)
	}
	if t.mu.failed != nil {
		return t.mu.failed
	}
	if t.mu.actor == t.mu.journaledActor {
		return nil
	}
	if _, err := t.log.Append(recActor, []byte(t.mu.actor), nil, true); err != nil {
		return err
	}

	t.mu.journaledActor = t.mu.actor

	return nil
}

// viewActors are the methods of Tx for the actors of the changes of each view.
type viewActors struct{ trees *trees }

// ActorSets freezes and returns the actor sets of a view's changes since its newest snapshot. Later changes
// are recorded in new sets.
func (tx viewActors) ActorSets(view uint32) []*actors.Set { return tx.attribution(view).Freeze() }

// attribution returns the attribution of a view, an empty one if the view does not exist.
func (tx viewActors) attribution(view uint32) *attribution.Attribution {
	if v, ok := tx.trees.mu.views[view]; ok {
		return &v.attribution
	}
	return &attribution.Attribution{}
}

// ActorNames returns the names of the actors in the sets of a view, sorted.
func (tx viewActors) ActorNames(view uint32) []string { return tx.attribution(view).Names() }

// EndInterval begins a new interval at a snapshot that is taken now. It returns the frozen actor sets of the
// interval that ends.
func (tx viewActors) EndInterval(view uint32) []*actors.Set {
	tx.trees.changedViews.MarkChanged(view)
	return tx.attribution(view).EndInterval()
}

// AddActorSets adds the sets of the previous interval to the present interval, because the snapshot
// between the two was removed.
func (tx viewActors) AddActorSets(view uint32, sets []*actors.Set) {
	tx.trees.changedViews.MarkChanged(view)
	tx.attribution(view).AddOlderSets(sets)
}

// JoinActors replaces the sets that an earlier call of ActorSets has returned by one joined set. If joined is nil,
// it removes them. See actors.RecentSets.Join.
func (tx viewActors) JoinActors(view uint32, sets []*actors.Set, joined *actors.Set) bool {
	return tx.attribution(view).Join(sets, joined)
}

// Actors returns the inodes that the edit has changed so far, and the actors of each.
func (e *Edit) Actors() *actors.Set { return e.attribution.OpenSet() }

// SetActors replaces the result of Actors by a set that recovery has read.
func (e *Edit) SetActors(s *actors.Set) {
	e.attribution = actors.RecentSets{}
	e.attribution.AddOlderSets([]*actors.Set{s})
}

// RequireActorRecord makes the next change append a record of its actor. A checkpoint calls it, because a recovery
// that begins at the checkpoint would otherwise attribute the next changes to actors.Unknown. Even a change by
// actors.Unknown then appends a record: if the checkpoint fails, recovery begins earlier and has read records of
// other actors.
func (tx viewActors) RequireActorRecord() { tx.trees.mu.journaledActor = noActor }

// noActor is a text that is not the name of an actor.
const noActor = "\x00"
