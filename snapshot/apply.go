package snapshot

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An applier applies records of the catalogue to the catalogue, the views of the forest and the
// background work. It implements catalogue.Trees. The caller holds the lock of the forest.
type applier struct {
	*live.Tx
	s     *Store
	edits map[uint32]*live.Edit // the edits of a record, by view; recovery makes them from the record
	invs  []live.Invalidation   // of the edits, in their order
}

// commit writes a record to the journal and applies it. The caller holds the lock of the forest.
func (s *Store) commit(tx *live.Tx, r catalogue.Record, c actors.Caller) error {
	return (&applier{Tx: tx, s: s}).commit(r, c)
}

// commit writes a record to the journal and applies it. If a kernel request caused the change, the
// request's id is in the record.
func (t *applier) commit(r catalogue.Record, c actors.Caller) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if c.Request != 0 {
		b = append(fmt.Appendf(nil, `{"request":%d,`, c.Request), b[1:]...)
	}
	if err := t.Append(journal.Type(r.Type()), b); err != nil {
		return err
	}

	// Sync such records soon, though the caller does not wait for it.
	t.s.log.SyncSoon()
	if c.Request != 0 {
		t.CarriedOut(c.Request, nil)
	}

	return t.apply(r)
}

// replay applies a record of the journal after a crash or a remount.
func (s opener) replay(tx *live.Tx, t journal.Type, payload []byte) error {
	r, err := catalogue.Decode(catalogue.Type(t), payload)
	if err != nil {
		return err
	}

	var cause struct {
		Request uint64 `json:"request"`
	}
	if err := json.Unmarshal(payload, &cause); err != nil {
		return err
	}
	if cause.Request != 0 {
		tx.CarriedOut(cause.Request, r)
	}

	return (&applier{Tx: tx, s: s.Store}).apply(r)
}

func (t *applier) apply(r catalogue.Record) error {
	return t.applyEffects(t.s.cat.Apply(t, r))
}

// applyEffects passes the effects of a record on to the background work, also if applying the
// record failed with err.
func (t *applier) applyEffects(e catalogue.Effects, err error) error {
	s := t.s
	for _, ws := range e.Made {
		entries{s}.addWorkspace(ws)
		t.Protect(ws.View, ws.Policy.ReadOnly)
	}
	for _, sn := range e.Seal {
		s.seal.Push(sn)
	}

	for _, view := range e.Removed {
		if _, ok := s.workspaces[view]; ok {
			s.unsent = append(s.unsent, events.Event{Workspace: view, Action: "ended"})
			s.keep.Signal.Up()
		}

		delete(s.workspaces, view)
		s.meter.Remove(view)
		s.mem.Remove(view)
		s.ckpt.Removed(view)
	}

	if e.Garbage {
		s.gc.Removed(e.Own)
	}

	if e.Rules {
		for _, ws := range s.cat.Workspaces.All() {
			t.Protect(ws.View, ws.Policy.ReadOnly)
		}

		s.keep.Signal.Up()
		entries{s}.refreshLimits()
	}

	return err
}

// Tree implements catalogue.Trees.
func (t *applier) Tree(sn *catalogue.Snapshot) (*tree.State, error) { return sn.Tree(t.s.src) }

// Pushed implements catalogue.Trees.
func (t *applier) Pushed(id cas.Hash) (*tree.State, uint64, error) {
	return t.s.objects.Pushed(t.s.src, id)
}

// Edited implements catalogue.Trees. In recovery it makes the edit again from its record.
func (t *applier) Edited(r *catalogue.Edit) (err error) {
	if t.edits[r.WS] != nil {
		return nil
	}

	e, err := t.Tx.Edit(r.WS)
	if err != nil {
		return err
	}
	if t.edits == nil {
		t.edits = make(map[uint32]*live.Edit)
	}
	t.edits[r.WS] = e

	if r.State == "" {
		err = e.Redo(r.Steps, r.Now, r.Depth)
	} else {
		err = t.loadEdited(e, r)
	}
	if err != nil || len(r.Actors) == 0 {
		return err
	}

	set, err := actors.Decode(r.Actors)
	if err != nil {
		return err
	}

	e.SetActors(set)

	return nil
}

// loadEdited loads the sealed result of an edit.
func (t *applier) loadEdited(e *live.Edit, r *catalogue.Edit) error {
	h, err := cas.ParseHash(r.State)
	if err != nil {
		return err
	}

	st, err := tree.Load(t.s.src, h)
	if err != nil {
		return err
	}

	return e.Sealed(st, r.NextIno)
}

// PutEdited implements catalogue.Trees.
func (t *applier) PutEdited(r *catalogue.Edit) {
	e := t.edits[r.WS]
	t.s.ckpt.Edited(e.Changes)
	t.invs = append(t.invs, t.Tx.Apply(e))
}

// entries has the methods through which packages engine, policy and live use the workspaces and
// snapshots of the store.
type entries struct{ *Store }

// Turns implements engine.Catalogue.
func (s entries) Turns(view uint32) (turns *semaphore.Weighted) {
	s.withReadLock(func(*live.Tx) {
		if w, ok := s.workspaces[view]; ok {
			turns = w.tenant().sealing
		} else {
			turns = semaphore.NewWeighted(1) // the fork has ended, so no other goroutine seals it
		}
	})
	return turns
}

// Needed implements engine.Catalogue. A snapshot that was removed is not needed.
func (s entries) Needed(sn *catalogue.Snapshot) (name string, needed bool) {
	s.withReadLock(func(*live.Tx) { name, needed = sn.Name, s.cat.Snapshots.At(sn.View) == sn || sn.Wanted })
	return name, needed
}

// Sealed implements engine.Catalogue.
func (s entries) Sealed(sn *catalogue.Snapshot, id cas.Hash, added int64) {
	s.withLock(func(*live.Tx) { s.cat.SetID(sn, id, added) })
}

// readView returns the state of a snapshot by its view, errs.Stale if there is no such snapshot.
// The caller holds the lock of the forest, at least for reading.
func (s *core) readView(src *tree.Source, view uint32) (*tree.State, error) {
	sn := s.cat.Snapshots.At(view)
	if sn == nil {
		return nil, errs.Stale
	}
	return sn.Tree(src)
}
