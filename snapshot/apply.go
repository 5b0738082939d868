package snapshot

import (
	"encoding/json"
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// applyParts has the parts of a store that a record of the catalogue may change: the catalogue, the views and the
// journal in parts, the workspaces, and the background work.
type applyParts struct {
	parts      engine.Parts
	workspaces workspaceTable
	sealer     *engine.Sealer
	ckpt       *engine.Checkpointer
	gc         engine.Collector
	room       engine.Room
	meter      *engine.Meter
	mem        *engine.Memory
	policies   policy.Enforcer
}

// An applier applies records of the catalogue to the applyParts. It implements catalogue.Trees. The caller holds the
// lock of the forest.
type applier struct {
	catalogue.Views
	tx            *live.Tx // the transaction in which the Views are changed
	p             *applyParts
	edits         map[uint32]*live.Edit // the edits of a record, by view; recovery makes them again from the record
	invalidations []live.Invalidation   // the invalidations of the edits, in their order
}

// commitNewRecord commits the record that newRecord returns, if it is not nil. It calls newRecord with the lock of the
// forest held.
func (p *applyParts) commitNewRecord(c actors.Caller, newRecord func(*live.Tx) (catalogue.Record, error)) error {
	return p.parts.Forest.Update(true, func(tx *live.Tx) error {
		r, err := newRecord(tx)
		if err != nil || r == nil {
			return err
		}
		return p.applier(tx).commit(r, c)
	})
}

// applier returns an applier for one record. The caller holds the lock of the forest.
func (p *applyParts) applier(tx *live.Tx) *applier { return &applier{Views: tx, tx: tx, p: p} }

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
	if err := t.tx.Append(journal.Type(r.Type()), b, c.Request); err != nil {
		return err
	}

	// Sync the record soon, although the caller does not wait for the sync.
	t.p.parts.Log.SyncSoon()

	return t.applyEffects(t.p.parts.Catalogue.Apply(t, r))
}

// replay applies a record of the journal after a crash or a remount.
func replay(p *applyParts, tx *live.Tx, t journal.Type, payload []byte) error {
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
		tx.MarkCarriedOut(cause.Request, r)
	}

	a := p.applier(tx)
	return a.applyEffects(p.parts.Catalogue.Apply(a, r))
}

// applyEffects starts the background work for the effects e of a record. err is the error of applying the record.
// applyEffects starts the work even if err is not nil, and returns err.
func (t *applier) applyEffects(e catalogue.Effects, err error) error {
	p := t.p
	for _, ws := range e.NewForks {
		p.addWorkspace(ws)
		t.tx.SetReadOnlyPaths(ws.View, ws.Policy.ReadOnly)
	}
	for _, sn := range e.ToSeal {
		p.sealer.Push(sn)
	}

	for _, view := range e.RemovedViews {
		if _, ok := p.workspaces.byView[view]; ok {
			p.workspaces.unsentEvents = append(p.workspaces.unsentEvents, events.Event{Workspace: view, Action: "ended"})
			p.policies.Signal.Send()
		}

		delete(p.workspaces.byView, view)
		p.meter.RemoveWorkspace(view)
		p.mem.RemoveWorkspace(view)
		p.ckpt.HandleRemovedView(view)
	}

	if e.HasGarbage {
		p.gc.CountRemoval(e.OwnBytes)
	}

	if e.PolicyChanged {
		for _, ws := range p.parts.Catalogue.Workspaces.All() {
			t.tx.SetReadOnlyPaths(ws.View, ws.Policy.ReadOnly)
		}

		p.policies.Signal.Send()
		p.refreshLimits()
	}

	return err
}

// Tree implements catalogue.Trees.
func (t *applier) Tree(sn *catalogue.Snapshot) (*tree.State, error) { return sn.Tree(t.p.parts.Source) }

// LoadPushed implements catalogue.Trees.
func (t *applier) LoadPushed(id cas.Hash) (*tree.State, uint64, error) {
	return t.p.parts.Objects.LoadPushed(t.p.parts.Source, id)
}

// MakeEditedCopy implements catalogue.Trees. In recovery it repeats the edit that the record describes.
func (t *applier) MakeEditedCopy(r *catalogue.Edit) (err error) {
	if t.edits[r.WS] != nil {
		return nil
	}

	e, err := t.tx.Edit(r.WS)
	if err != nil {
		return err
	}
	if t.edits == nil {
		t.edits = make(map[uint32]*live.Edit)
	}
	t.edits[r.WS] = e

	if r.State == "" {
		err = e.Redo(r.Steps, r.Time, r.Depth)
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

	st, err := tree.Load(t.p.parts.Source, h)
	if err != nil {
		return err
	}

	return e.SetResult(st, r.NextIno)
}

// PutEditedCopy implements catalogue.Trees.
func (t *applier) PutEditedCopy(r *catalogue.Edit) {
	e := t.edits[r.WS]
	t.p.ckpt.AddEditSteps(e.StepCount)
	t.invalidations = append(t.invalidations, t.tx.Apply(e))
}
