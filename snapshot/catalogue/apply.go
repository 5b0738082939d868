package catalogue

import (
	"encoding/json"
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Type is the type of a record of the catalogue in the journal. The payload is JSON. See FORMAT.md.
type Type uint8

const (
	TypeCapture Type = 64 + iota
	TypeEdit
	TypeFork
	TypeEndFork
	TypeRenameFork
	TypeDelete
	TypeRename
	TypeAmend
	TypePolicy
	TypeBeginFromTree
	TypeBookmark
	TypePull
	TypeLease
	TypeLogOp
	TypeForgetOps
	TypeUndoRemoval
	TypeForget
)

// A Record is one change of the catalogue.
type Record interface {
	Type() Type
	apply(*applyRun) error
}

var recordConstructors = map[Type]func() Record{
	TypeCapture:       func() Record { return &Capture{} },
	TypeEdit:          func() Record { return &Edit{} },
	TypeFork:          func() Record { return &Fork{} },
	TypeEndFork:       func() Record { return &EndFork{} },
	TypeRenameFork:    func() Record { return &RenameFork{} },
	TypeDelete:        func() Record { return &Delete{} },
	TypeRename:        func() Record { return &Rename{} },
	TypeAmend:         func() Record { return &Amend{} },
	TypePolicy:        func() Record { return &SetPolicy{} },
	TypeBeginFromTree: func() Record { return &BeginFromTree{} },
	TypeBookmark:      func() Record { return &Bookmark{} },
	TypePull:          func() Record { return &Pull{} },
	TypeLease:         func() Record { return &Lease{} },
	TypeLogOp:         func() Record { return &LogOp{} },
	TypeForgetOps:     func() Record { return &ForgetOps{} },
	TypeUndoRemoval:   func() Record { return &UndoRemoval{} },
	TypeForget:        func() Record { return &Forget{} },
}

// Decode returns the record of a type with a payload in JSON.
func Decode(t Type, payload []byte) (Record, error) {
	newEmpty, ok := recordConstructors[t]
	if !ok {
		return nil, fmt.Errorf("record type %d is unknown to this version", t)
	}
	r := newEmpty()
	return r, json.Unmarshal(payload, r)
}

// Views are the present trees of the workspaces, by view number. For each view they also record the actors that
// changed it since the newest snapshot (the present interval). Snapshots have view numbers, too. A number belongs
// to one workspace or one snapshot, never to both.
type Views interface {
	State(view uint32) (*tree.State, bool)
	Freeze(view uint32) *tree.State                                   // freezes the present state and returns it, nil for an unknown view
	WithoutEmpty(st *tree.State, paths []naming.BytePath) *tree.State // returns st without the empty files and directories at paths
	ChangeNumber(view uint32) uint64                                  // returns a number that is higher after every change of a view
	NewView() (uint32, error)                                         // returns an unused view number
	AddView(view uint32, st *tree.State)
	DropView(view uint32)
	SetViewEnded(view uint32, ended bool)         // makes the nodes of a view stale or, if ended is false, valid again
	SetCounters(ino uint64, view uint32)          // raises the next inode and view numbers to at least these
	ActorSets(view uint32) []*actors.Set          // of the present interval
	ActorNames(view uint32) []string              // the names of the actors in ActorSets
	EndInterval(view uint32) []*actors.Set        // ends the present interval, and returns its sets
	AddActorSets(view uint32, sets []*actors.Set) // adds the sets to the present interval
}

// Trees extends Views by the methods that only some records need.
type Trees interface {
	Views
	Tree(*Snapshot) (*tree.State, error)
	// LoadPushed returns a tree whose objects are in the store or on a remote, and its highest
	// inode number.
	LoadPushed(id cas.Hash) (st *tree.State, highest uint64, err error)
	// MakeEditedCopy makes the edited copy of a view from the record of the edit. Only recovery needs this:
	// otherwise the copy exists already, and MakeEditedCopy does nothing. PutEditedCopy replaces the view by this
	// copy.
	MakeEditedCopy(*Edit) error
	PutEditedCopy(*Edit)
}

// Effects are the tasks that remain for the caller of Apply.
type Effects struct {
	ToSeal        []*Snapshot  // snapshots to seal
	NewForks      []*Workspace // new forks
	RemovedViews  []uint32     // removed views; a running checkpoint need not seal them
	HasGarbage    bool         // snapshots were removed, so a gc may find garbage
	OwnBytes      int64        // the approximate number of bytes that only the removed snapshots used
	PolicyChanged bool         // a policy changed: automatic captures, expiry and limits must be updated
}

// applyRun is the state of one call of Apply.
type applyRun struct {
	cat   *Catalogue
	trees Trees
	Effects
}

// Apply makes the change of a record. The store calls it for a new record that it has journaled, and for
// the records that a recovery replays.
func (c *Catalogue) Apply(t Trees, r Record) (Effects, error) {
	a := &applyRun{cat: c, trees: t}
	err := r.apply(a)
	return a.Effects, err
}

// PresentState returns the present state of a workspace without freezing it. The caller holds the lock of the trees
// while it uses the state.
func (w *Workspace) PresentState(v Views) *tree.State {
	st, _ := v.State(w.View)
	return st
}

// SetBase adds a snapshot of st as the base of a new workspace, the state from which the workspace began. The parent
// of the base becomes the head of the workspace.
func (c *Catalogue) SetBase(t Trees, w *Workspace, st *tree.State, r SnapshotRecord) (Effects, error) {
	a := &applyRun{cat: c, trees: t}
	w.Head = r.Parent
	err := a.setBase(w, st, r)
	return a.Effects, err
}

func (a *applyRun) setBase(w *Workspace, st *tree.State, r SnapshotRecord) error {
	r.WS = w.View
	r.Files, r.Bytes = st.Inodes-1, st.Bytes
	w.Base = r.View
	return a.addState(r, st, actors.Changes{})
}

// addRoots makes gc keep the trees with the given ids until the next checkpoint.
func (a *applyRun) addRoots(ids ...string) error {
	for _, id := range ids {
		h, err := cas.ParseHash(id)
		if err != nil {
			return err
		}
		a.cat.Unwritten.addRoot(Root{ID: h})
	}
	return nil
}

// loadPushed returns the tree with an id and its highest inode number. It makes gc keep the tree until the next
// checkpoint.
func (a *applyRun) loadPushed(id string) (st *tree.State, highest uint64, err error) {
	h, err := cas.ParseHash(id)
	if err != nil {
		return nil, 0, err
	}

	a.cat.Unwritten.addRoot(Root{ID: h})
	return a.trees.LoadPushed(h)
}

// addState adds a snapshot with a frozen state to the catalogue.
func (a *applyRun) addState(r SnapshotRecord, st *tree.State, changes actors.Changes) error {
	a.trees.SetCounters(0, r.View+1)
	sn, err := r.Load()
	if err != nil {
		return err
	}

	sn.State.Store(st)
	sn.changes = changes
	a.cat.add(sn, &a.ToSeal)

	return nil
}

// removeSnapshots removes snapshots from the catalogue.
func (a *applyRun) removeSnapshots(removed ...*Snapshot) {
	for _, s := range removed {
		if a.cat.Snapshots.At(s.View) == s {
			if !a.cat.IsHidden(s) {
				a.cat.Bytes.Subtract(s.Bytes)
			}
			a.RemovedViews = append(a.RemovedViews, s.View)
		}

		a.cat.Snapshots.drop(s.View)
		a.cat.dropUnsealed(s)
		a.cat.Unwritten.MarkChanged(SnapshotPrefix, s.View)
	}

	for w, snaps := range a.groupByWorkspace(removed) {
		a.OwnBytes += w.Snapshots.Remove(snaps, a.baseBytes(w), w.PresentState(a.trees).Bytes)
		a.cat.TouchWorkspace(w)
	}
}

// baseBytes returns the size of the files in the base of a workspace, 0 without a base.
func (a *applyRun) baseBytes(w *Workspace) int64 {
	if base := a.cat.Snapshots.At(w.Base); base != nil {
		return base.Bytes
	}
	return 0
}

// groupByWorkspace groups snapshots by workspace. It skips snapshots whose workspace does not exist.
func (a *applyRun) groupByWorkspace(snaps []*Snapshot) map[*Workspace][]*Snapshot {
	groups := make(map[*Workspace][]*Snapshot)
	for _, s := range snaps {
		if w := a.cat.Workspaces.At(s.WS); w != nil {
			groups[w] = append(groups[w], s)
		}
	}

	return groups
}

// PresentChanges returns the changes since the newest snapshot.
func (w *Workspace) PresentChanges(v Views) actors.Changes {
	c := w.storedChanges
	c.Add(actors.ChangesOf(v.ActorSets(w.View)))
	return c
}

// PresentActors returns the names of the actors that changed the workspace since the newest snapshot.
func (w *Workspace) PresentActors(v Views) []string {
	return actors.JoinNames(w.storedChanges.Names, v.ActorNames(w.View))
}

// AllChanges returns the changes since the workspace began.
func (w *Workspace) AllChanges(v Views) actors.Changes {
	c := w.PresentChanges(v)
	for _, sn := range w.Snapshots.All() {
		if sn.IsPastState() {
			c.Add(sn.changes)
		}
	}

	return c
}

// endInterval returns the changes since the newest snapshot, and begins a new interval. The caller adds
// the next snapshot with these changes.
func (w *Workspace) endInterval(v Views) actors.Changes {
	c := w.storedChanges
	c.Add(actors.ChangesOf(v.EndInterval(w.View)))
	w.storedChanges = actors.Changes{}
	return c
}

// passOnChanges is called before snapshots are removed. It adds the changes of each of them to the next
// newer snapshot of its workspace, or to the present interval if there is no newer snapshot.
func (a *applyRun) passOnChanges(removed []*Snapshot) {
	for w, snaps := range a.groupByWorkspace(removed) {
		present, heirs := w.Snapshots.PassOnChanges(snaps)
		for _, p := range present {
			w.storedChanges.Add(actors.Changes{Names: p.Names, Stored: p.Stored})
			a.trees.AddActorSets(w.View, p.Sets)
		}

		for _, sn := range heirs {
			a.cat.TouchSnapshot(sn.View)
		}
	}
}
