package catalogue

import (
	"encoding/json"
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Type is that of a record in the journal; its payload is JSON. See FORMAT.md.
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
	TypeBegin
	TypeBookmark
	TypePull
	TypeLease
)

// A Record is one change of the catalogue.
type Record interface {
	Type() Type
	apply(*applying) error
}

var newRecord = map[Type]func() Record{
	TypeCapture:    func() Record { return &Capture{} },
	TypeEdit:       func() Record { return &Edit{} },
	TypeFork:       func() Record { return &Fork{} },
	TypeEndFork:    func() Record { return &EndFork{} },
	TypeRenameFork: func() Record { return &RenameFork{} },
	TypeDelete:     func() Record { return &Delete{} },
	TypeRename:     func() Record { return &Rename{} },
	TypeAmend:      func() Record { return &Amend{} },
	TypePolicy:     func() Record { return &Policy{} },
	TypeBegin:      func() Record { return &Begin{} },
	TypeBookmark:   func() Record { return &Bookmark{} },
	TypePull:       func() Record { return &Pull{} },
	TypeLease:      func() Record { return &Lease{} },
}

// Decode returns the record with a payload that json.Marshal made.
func Decode(t Type, payload []byte) (Record, error) {
	make, ok := newRecord[t]
	if !ok {
		return nil, fmt.Errorf("record type %d is unknown to this version", t)
	}
	r := make()
	return r, json.Unmarshal(payload, r)
}

// Views are the present trees of the workspaces, by number, and which actors changed them since
// the last capture. Snapshots have numbers of the same kind.
type Views interface {
	State(view uint32) (*tree.State, bool)
	Capture(view uint32) (*tree.State, error)           // freezes the present state
	Without(st *tree.State, paths []string) *tree.State // the state without what is empty at these paths
	Changed(view uint32) uint64                         // grows with each change
	NewView() (uint32, error)
	AddView(view uint32, st *tree.State)
	DropView(view uint32)
	SetCounters(ino uint64, view uint32)    // raises the next numbers
	Actors(view uint32) []*actors.Set       // of the present interval
	ActorNames(view uint32) []string        // the same
	NextInterval(view uint32) []*actors.Set // ends the present one, and returns its sets
	ReturnActors(view uint32, sets []*actors.Set)
}

// Trees are Views with what records need beyond them.
type Trees interface {
	Views
	Tree(*Snapshot) (*tree.State, error)
	// Pushed returns a tree whose objects are in the store or elsewhere, and its highest
	// inode number.
	Pushed(id cas.Hash) (st *tree.State, highest uint64, err error)
	// Edited makes a copy of the view what the record of an edit says, if that is not done
	// yet. PutEdited puts the copy in place.
	Edited(*Edit) error
	PutEdited(*Edit)
}

// Effects are what is to be done after a record was applied.
type Effects struct {
	Seal    []*Snapshot  // snapshots that have no id yet
	Made    []*Workspace // forks
	Removed []uint32     // views that a checkpoint under way need not seal any more
	Garbage bool         // gc may find something
	Own     int64        // about as many bytes
	Rules   bool         // a policy changed: captures, removals and limits follow it
}

// applying is a record that is being applied.
type applying struct {
	*Catalogue
	Trees
	Effects
}

// Apply makes the change of a record, for a program and for recovery.
func (c *Catalogue) Apply(t Trees, r Record) (Effects, error) {
	a := &applying{Catalogue: c, Trees: t}
	err := r.apply(a)
	return a.Effects, err
}

// Freeze returns the present state of a workspace that is in the catalogue, which has a view
// for each.
func (w *Workspace) Freeze(v Views) *tree.State {
	st, _ := v.Capture(w.View)
	return st
}

// Present is Freeze, and the state must not be kept.
func (w *Workspace) Present(v Views) *tree.State {
	st, _ := v.State(w.View)
	return st
}

// SetBase keeps the state that a workspace began from.
func (c *Catalogue) SetBase(t Trees, w *Workspace, st *tree.State, r SnapshotRecord) (Effects, error) {
	a := &applying{Catalogue: c, Trees: t}
	err := a.setBase(w, st, r)
	return a.Effects, err
}

func (a *applying) setBase(w *Workspace, st *tree.State, r SnapshotRecord) error {
	r.WS = w.View
	r.Files, r.Bytes = st.Inodes-1, st.Bytes
	w.Base = r.View
	return a.keep(r, st, actors.Changes{})
}

// keep makes a frozen state a snapshot of the catalogue.
func (a *applying) keep(r SnapshotRecord, st *tree.State, changes actors.Changes) error {
	a.SetCounters(0, r.View+1)
	sn, err := r.Load()
	if err != nil {
		return err
	}
	sn.State.Store(st)
	sn.Changes = changes
	a.add(sn)
	return nil
}

func (a *applying) add(sn *Snapshot) {
	if a.Add(sn) {
		a.Seal = append(a.Seal, sn)
	}
}

func (a *applying) remove(gone ...*Snapshot) {
	for _, s := range gone {
		if a.Snapshots[s.View] == s {
			a.Bytes.Take(s.Bytes)
			a.Removed = append(a.Removed, s.View)
		}
		delete(a.Snapshots, s.View)
		forget(a.Unsealed, s)
		a.Dirty[Key(Snapshots, s.View)] = s.View
	}
	for w, gone := range a.byWorkspace(gone) {
		a.Own += w.Snapshots.Remove(gone, a.baseBytes(w), w.Present(a).Bytes)
		a.TouchWorkspace(w)
	}
}

func (a *applying) baseBytes(w *Workspace) int64 {
	if base, ok := a.Snapshots[w.Base]; ok {
		return base.Bytes
	}
	return 0
}

func (a *applying) byWorkspace(snaps []*Snapshot) map[*Workspace][]*Snapshot {
	of := make(map[*Workspace][]*Snapshot)
	for _, s := range snaps {
		if w, ok := a.Workspaces[s.WS]; ok {
			of[w] = append(of[w], s)
		}
	}
	return of
}

// PresentChanges are those since the newest snapshot.
func (w *Workspace) PresentChanges(v Views) actors.Changes {
	c := w.Early
	c.Take(actors.ChangesOf(v.Actors(w.View)))
	return c
}

// PresentActors are those that changed anything since the newest snapshot.
func (w *Workspace) PresentActors(v Views) []string {
	return actors.JoinNames(w.Early.Names, v.ActorNames(w.View))
}

// AllChanges are those since the workspace began.
func (w *Workspace) AllChanges(v Views) actors.Changes {
	c := w.PresentChanges(v)
	for _, sn := range w.Snapshots.All() {
		if sn.Past() {
			c.Take(sn.Changes)
		}
	}
	return c
}

// endInterval returns the changes since the newest snapshot, for the next one.
func (w *Workspace) endInterval(v Views) actors.Changes {
	c := w.Early
	c.Take(actors.ChangesOf(v.NextInterval(w.View)))
	w.Early = actors.Changes{}
	return c
}

// passOn gives the changes of snapshots that are to be removed to the next newer one of
// their workspace, or to the present.
func (a *applying) passOn(gone []*Snapshot) {
	for w, gone := range a.byWorkspace(gone) {
		present, heirs := w.Snapshots.PassOn(gone)
		for _, p := range present {
			w.Early.Take(actors.Changes{Names: p.Names, Stored: p.Stored})
			a.ReturnActors(w.View, p.Sets)
		}
		for _, sn := range heirs {
			a.Touch(sn.View)
		}
	}
}
