package snapshot

import (
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Ops are the operations of a workspace that changed what users see.
type Ops struct{ w *Workspace }

func (w *Workspace) Ops() Ops { return Ops{w} }

// List returns the last operations, the oldest first.
func (ops Ops) List() (out []catalogue.Op) {
	ops.w.withReadLock(func() { out = slices.Clone(ops.w.ws.Ops) })
	return out
}

// Named returns an operation by its number. The error is catalogue.ErrNoOp.
func (ops Ops) Named(number uint64) (out catalogue.Op, err error) {
	ops.w.withReadLock(func() {
		var op *catalogue.Op
		if op, err = ops.w.ws.Op(number); err == nil {
			out = *op
		}
	})
	return out, err
}

// BeginApply adds an apply to a directory, and returns its number when that is on disk.
func (ops Ops) BeginApply(to string, a catalogue.Apply, c actors.Caller) (number uint64, err error) {
	s := ops.w.store
	err = s.forest.Update(true, func(tx *live.Tx) error {
		w := ops.w.ws
		if err := w.Alive(); err != nil {
			return err
		}

		a.Dir, number = w.Dir, w.NextOp()
		r := &catalogue.LogOp{WS: w.View, Op: catalogue.Op{
			Number: number, Name: "apply", Of: to, At: s.opt.Now(), Actor: c.Actor, Command: c.Command, UID: c.UID, Apply: &a,
		}}
		return s.commit(tx, r, c)
	})
	if err != nil {
		return 0, err
	}

	return number, s.Sync()
}

// EndApply sets the state of the directory after an apply. An apply that changed nothing is forgotten.
func (ops Ops) EndApply(number uint64, after string, c actors.Caller) error {
	return ops.amend(number, c, func(r *catalogue.LogOp) {
		r.Op.Apply.After, r.Drop = after, after == r.Op.Apply.Before
	})
}

// UndoneApply records that an apply was undone. If the store was filled from the directory, the changes
// of the workspace since then can be applied again.
func (ops Ops) UndoneApply(number uint64, c actors.Caller) error {
	return ops.amend(number, c, func(r *catalogue.LogOp) { r.Op.Undone, r.Back = true, r.Op.Apply.Own })
}

// amend changes an apply.
func (ops Ops) amend(number uint64, c actors.Caller, change func(*catalogue.LogOp)) error {
	s := ops.w.store
	err := s.forest.Update(true, func(tx *live.Tx) error {
		known, err := ops.w.ws.Op(number)
		if err != nil {
			return err
		}
		if known.Apply == nil {
			return errs.New(errs.Invalid, "malformed request: operation %d is no apply", number)
		}

		r := &catalogue.LogOp{WS: ops.w.ws.View, Op: *known}
		a := *known.Apply
		r.Op.Apply = &a
		change(r)

		return s.commit(tx, r, c)
	})
	if err != nil {
		return err
	}

	return s.Sync()
}
