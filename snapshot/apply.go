package snapshot

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// trees are what records of the catalogue change: the views of the forest, with its lock held.
type trees struct {
	*live.Tx
	s    *Store
	edit *live.Edit // what an edit record says; recovery makes it of the record
	inv  live.Invalidation
}

// commit is trees.commit. The lock of the forest is held.
func (s *Store) commit(tx *live.Tx, r catalogue.Record, c actors.Caller) error {
	return (&trees{Tx: tx, s: s}).commit(r, c)
}

// commit journals a record, with the request that it carries out, if any, and applies it.
func (t *trees) commit(r catalogue.Record, c actors.Caller) error {
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
	// What changes history is soon on the disk, though the caller does not wait.
	t.s.log.SyncSoon()
	if c.Request != 0 {
		t.CarriedOut(c.Request, nil)
	}
	return t.apply(r)
}

// replay applies a record of the journal after a crash or a remount.
func (s opening) replay(tx *live.Tx, t journal.Type, payload []byte) error {
	r, err := catalogue.Decode(catalogue.Type(t), payload)
	if err != nil {
		return err
	}
	var of struct {
		Request uint64 `json:"request"`
	}
	if err := json.Unmarshal(payload, &of); err != nil {
		return err
	}
	if of.Request != 0 {
		tx.CarriedOut(of.Request, r)
	}
	return (&trees{Tx: tx, s: s.Store}).apply(r)
}

func (t *trees) apply(r catalogue.Record) error {
	return t.follow(t.s.cat.Apply(t, r))
}

// follow passes the effects of a record on to what works in the background.
func (t *trees) follow(e catalogue.Effects, err error) error {
	s := t.s
	for _, ws := range e.Made {
		entries{s}.connect(ws)
	}
	for _, sn := range e.Seal {
		s.seal.Push(sn)
	}
	for _, view := range e.Removed {
		delete(s.workspaces, view)
		s.meter.Remove(view)
		s.mem.Remove(view)
		s.ckpt.Removed(view)
	}
	if e.Garbage {
		s.gc.Removed(e.Own)
	}
	if e.Rules {
		s.keep.Signal.Up()
		entries{s}.refreshLimit()
	}
	return err
}

// Tree implements catalogue.Trees.
func (t *trees) Tree(sn *catalogue.Snapshot) (*tree.State, error) { return sn.Tree(t.s.src) }

// Pushed implements catalogue.Trees.
func (t *trees) Pushed(id cas.Hash) (*tree.State, uint64, error) {
	return t.s.objects.Pushed(t.s.src, id)
}

// Edited implements catalogue.Trees.
func (t *trees) Edited(r *catalogue.Edit) (err error) {
	if t.edit != nil {
		return nil
	}
	if t.edit, err = t.Tx.Edit(r.WS); err != nil {
		return err
	}
	if r.State == "" {
		err = t.edit.Redo(r.Steps, r.Now, r.Depth)
	} else {
		err = t.load(r)
	}
	if err != nil || len(r.Actors) == 0 {
		return err
	}
	set, err := actors.Decode(r.Actors)
	if err == nil {
		t.edit.SetActors(set)
	}
	return err
}

func (t *trees) load(r *catalogue.Edit) error {
	h, err := cas.ParseHash(r.State)
	if err != nil {
		return err
	}
	st, err := tree.Load(t.s.src, h)
	if err == nil {
		err = t.edit.Sealed(st, r.NextIno)
	}
	return err
}

// PutEdited implements catalogue.Trees.
func (t *trees) PutEdited(*catalogue.Edit) {
	t.s.ckpt.Edited(t.edit.Changes)
	t.inv = t.Tx.Apply(t.edit)
}

// entries are the workspaces and snapshots of the catalogue as the parts of a store see them.
type entries struct{ *Store }

// Turns implements engine.Catalogue.
func (s entries) Turns(view uint32) (turns *semaphore.Weighted) {
	s.look(func(*live.Tx) {
		if w, ok := s.workspaces[view]; ok {
			turns = w.uppermost().sealing
		} else {
			turns = semaphore.NewWeighted(1) // of a fork that has ended
		}
	})
	return turns
}

// Needed implements engine.Catalogue. Nobody needs the chunks of a snapshot that was removed.
func (s entries) Needed(sn *catalogue.Snapshot) (name string, needed bool) {
	s.look(func(*live.Tx) { name, needed = sn.Name, s.cat.Snapshots[sn.View] == sn || sn.Wanted })
	return name, needed
}

// Sealed implements engine.Catalogue.
func (s entries) Sealed(sn *catalogue.Snapshot, id cas.Hash, added int64) {
	s.alter(func(*live.Tx) { s.cat.SetID(sn, id, added) })
}

// readView finds the state of a snapshot's view. The lock of the forest is
// held at least for reading.
func (s *core) readView(src *tree.Source, view uint32) (*tree.State, error) {
	sn, ok := s.cat.Snapshots[view]
	if !ok {
		return nil, errs.Stale
	}
	return sn.Tree(src)
}
