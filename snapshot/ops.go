package snapshot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Ops are the operations of a workspace that users can list and undo.
type Ops struct{ w *Workspace }

func (w *Workspace) Ops() Ops { return Ops{w} }

// List returns the last operations, the oldest first.
func (ops Ops) List() (out []catalogue.Op) {
	ops.w.withReadLock(func() { out = slices.Clone(ops.w.ws.Ops) })
	return out
}

// ByNumber returns an operation by its number. The error is catalogue.ErrNoOp if there is no such operation.
func (ops Ops) ByNumber(number uint64) (catalogue.Op, error) {
	defer ops.w.store.forest.ReadLock()()
	op, err := ops.w.ws.OpByNumber(number)
	if err != nil {
		return catalogue.Op{}, err
	}
	return *op, nil
}

// maxOpTextBytes is the largest number of bytes of the names in an operation.
const maxOpTextBytes = 500

// newOp describes an operation of the caller c. object is the name of the snapshot, fork or directory of the
// operation, or the names of several. The caller of newOp holds the lock of the forest.
func (ops Ops) newOp(name, object string, c actors.Caller) *catalogue.Op {
	if len(object) > maxOpTextBytes {
		object = strings.ToValidUTF8(object[:maxOpTextBytes], "") + "…"
	}

	return &catalogue.Op{Number: ops.w.ws.NextOpNumber(), Name: name, Target: object, Time: ops.w.store.opt.Now(), Actor: c.Actor, Command: c.Command, UID: c.UID}
}

// keepRemoved sets op.Kept, so that the snapshots that the operation removes are kept for an undo, if the policy
// and the limits allow this. It returns the time until which they are kept, or zero. The caller holds the lock of
// the forest.
func (ops Ops) keepRemoved(op *catalogue.Op, views []uint32) (until time.Time) {
	cat := ops.w.store.cat
	snaps := make([]*catalogue.Snapshot, len(views))
	for i, view := range views {
		snaps[i] = cat.Snapshots.At(view)
	}
	if !cat.MayKeep(ops.w.ws, snaps, nil) {
		return time.Time{}
	}

	op.Kept = views

	return ops.undoDeadline(op)
}

// undoDeadline returns the time until which an operation with kept snapshots or forks can be undone. The caller
// holds the lock of the forest.
func (ops Ops) undoDeadline(op *catalogue.Op) time.Time {
	undoSeconds := ops.w.store.cat.Workspaces.At(live.MainView).Policy.UndoSeconds
	return op.Time.Add(time.Duration(undoSeconds) * time.Second)
}

// UndoDeadlines returns, by the number of the operation, the times until which the operations with kept snapshots
// or forks can be undone.
func (ops Ops) UndoDeadlines() map[uint64]time.Time {
	all := make(map[uint64]time.Time)
	ops.w.withReadLock(func() {
		for i := range ops.w.ws.Ops {
			if op := &ops.w.ws.Ops[i]; len(op.Kept) > 0 {
				all[op.Number] = ops.undoDeadline(op)
			}
		}
	})

	return all
}

// Undo undoes an operation other than an apply. It keeps changes that were made after the operation. If these are
// in conflict with the undo of an edit (a restore, a merge, a refresh, an import or an undo of an actor), the
// options o decide.
func (ops Ops) Undo(ctx context.Context, number uint64, o MergeOptions) (op catalogue.Op, res MergeResult, err error) {
	s, w := ops.w.store, ops.w
	w.withReadLock(func() {
		var known *catalogue.Op
		if known, err = s.cat.UndoableOp(w.ws, number); err == nil {
			op = *known
		}
	})
	if err != nil {
		return op, res, err
	}
	if op.BeforeView != 0 {
		res, err = ops.undoEdit(ctx, op, o)
		return op, res, err
	}

	res.DryRun, res.Paths = o.DryRun, []graft.PathChange{}
	var madeSnapshot *catalogue.Snapshot // the snapshot that the operation made, and that the undo removes
	err = s.forest.Update(true, func(tx *live.Tx) error {
		undo := ops.newOp("", "", o.Caller)
		undo.Undoes = number
		r, err := catalogue.NewUndo(s.cat, w.ws, *undo, o.Caller, s.opt.Now())
		if err != nil || o.DryRun {
			return err
		}

		madeSnapshot = s.cat.Snapshots.At(op.ResultView)
		err = s.applier(tx).commit(r, o.Caller)
		if madeSnapshot != nil && s.cat.Snapshots.At(op.ResultView) == madeSnapshot {
			madeSnapshot = nil
		}

		return err
	})
	if err != nil || o.DryRun {
		return op, res, err
	}

	ops.reportUndo(op, o.Caller)
	if madeSnapshot != nil {
		s.Hooks.emit(events.Event{Workspace: w.ws.View, Action: "removed", From: madeSnapshot.Name}, o.Caller)
	}

	return op, res, s.Sync()
}

// reportUndo emits the events of an undo.
func (ops Ops) reportUndo(op catalogue.Op, c actors.Caller) {
	e := events.Event{Workspace: ops.w.ws.View}
	switch op.Name {
	case catalogue.OpRename:
		e.Action, e.From, e.Detail = "renamed-snapshot", op.NewName, op.Target
	case catalogue.OpRenameFork:
		e.Action, e.From, e.Detail = "renamed-fork", op.NewName, op.Target
	case catalogue.OpPolicy:
		e.Action = "policy"
	case catalogue.OpEndFork:
		e.Action, e.Detail = "forked", op.Target
	default:
		e.Action, e.From = "returned", op.Target
	}

	ops.w.store.Hooks.emit(e, c)
}

// undoEdit undoes an edit: it merges the reversed change, from the state after the edit to the state before, into
// the workspace.
func (ops Ops) undoEdit(ctx context.Context, op catalogue.Op, o MergeOptions) (MergeResult, error) {
	s, w := ops.w.store, ops.w
	args := change{name: catalogue.OpUndo, undoes: op.Number, caller: o.Caller, listCharge: o.ListCharge, sourceName: op.Name + " " + op.Target, Changes: Changes{DryRun: o.DryRun}}
	c, err := w.change(ctx, args, func(c *change) error {
		var states [2]*tree.State
		err := s.forest.Update(true, func(*live.Tx) (err error) {
			if _, err := s.cat.UndoableOp(w.ws, op.Number); err != nil {
				return err
			}
			for i, view := range []uint32{op.Kept[0], op.BeforeView} {
				if states[i], err = s.cat.Snapshots.At(view).Tree(s.src); err != nil {
					return err
				}
				c.holdState(states[i])
			}
			return nil
		})
		if err != nil {
			return err
		}

		c.message = fmt.Sprintf("before undo of operation %d", op.Number)
		c.graft = live.GraftOptions{Options: graft.Options{Source: states[1], View: op.BeforeView}}
		c.checkBeforePublish = func() error {
			_, err := s.cat.UndoableOp(w.ws, op.Number)
			return err
		}

		return o.plan(ctx, c, states[0])
	})

	return c.mergeResult(), err
}

// removeKept removes the snapshots and forks that are kept by operations older than the given time. It returns the
// time of the first operation that still keeps a snapshot or fork. If there is no such operation, the time is zero.
func (ops Ops) removeKept(before time.Time) (first time.Time, err error) {
	err = ops.w.store.commitNewRecord(actors.Caller{}, func(*live.Tx) (catalogue.Record, error) {
		var r *catalogue.ForgetOps
		if r, first = ops.w.ws.NewForgetOps(before); r == nil {
			return nil, nil
		}
		return r, nil
	})

	return first, err
}

// RemoveKept removes the snapshots and forks that operations of all workspaces keep for their undo, so that a gc
// frees their space.
func (s *Store) RemoveKept() error {
	var all []*Workspace
	s.forest.WithReadLock(func(*live.Tx) { all = slices.Collect(maps.Values(s.workspaces.byView)) })

	for _, w := range all {
		if _, err := w.Ops().removeKept(s.opt.Now().Add(time.Second)); err != nil {
			return err
		}
	}

	return nil
}

// BeginApply records an apply to the directory dir, and returns its number when the record is on disk.
func (ops Ops) BeginApply(dir string, a catalogue.DirApply, c actors.Caller) (number uint64, err error) {
	s := ops.w.store
	if err := s.commitNewRecord(c, func(*live.Tx) (catalogue.Record, error) {
		w := ops.w.ws
		if err := w.CheckAlive(); err != nil {
			return nil, err
		}

		a.Dir = w.DirState
		op := ops.newOp(catalogue.OpApply, "", c)
		op.Target, op.Apply, number = dir, &a, op.Number

		return &catalogue.LogOp{WS: w.View, Op: *op}, nil
	}); err != nil {
		return 0, err
	}

	return number, s.Sync()
}

// EndApply records the state of the directory after an apply. If the apply changed nothing, it removes the record
// of the apply.
func (ops Ops) EndApply(number uint64, afterID string, c actors.Caller) error {
	return ops.amendApply(number, c, func(r *catalogue.LogOp) {
		r.Op.Apply.After, r.RemoveOp = afterID, afterID == r.Op.Apply.Before
	})
}

// MarkApplyUndone records that an apply was undone. If the store was filled from the directory, the changes that
// the apply had written can be applied again.
func (ops Ops) MarkApplyUndone(number uint64, c actors.Caller) error {
	return ops.amendApply(number, c, func(r *catalogue.LogOp) { r.Op.Undone, r.ResetDir = true, r.Op.Apply.FilledStore })
}

// amendApply changes the record of an apply. It calls edit with a copy of the record.
func (ops Ops) amendApply(number uint64, c actors.Caller, edit func(*catalogue.LogOp)) error {
	s := ops.w.store
	if err := s.commitNewRecord(c, func(*live.Tx) (catalogue.Record, error) {
		known, err := ops.w.ws.OpByNumber(number)
		if err != nil {
			return nil, err
		}
		if known.Apply == nil {
			return nil, errs.New(errs.Invalid, "malformed request: operation %d is no apply", number)
		}

		r := &catalogue.LogOp{WS: ops.w.ws.View, Op: *known}
		a := *known.Apply
		r.Op.Apply = &a
		edit(r)

		return r, nil
	}); err != nil {
		return err
	}

	return s.Sync()
}
