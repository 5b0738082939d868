package catalogue

import (
	"fmt"
	"reflect"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
)

// ErrUndone means that an operation was undone before.
var ErrUndone = errs.New(errs.Exist, "undone already")

// UndoableOp returns an operation that can be undone.
func (c *Catalogue) UndoableOp(w *Workspace, number uint64) (*Op, error) {
	if err := w.CheckAlive(); err != nil {
		return nil, err
	}
	o, err := w.OpByNumber(number)
	if err != nil {
		return nil, err
	}
	if o.Undone {
		return nil, fmt.Errorf("%w: operation %d; see `amberfs ops`", ErrUndone, number)
	}

	switch o.Name {
	case OpApply:
		return nil, errs.New(errs.Invalid, "malformed request: an apply is undone by `amberfs apply --undo`, in a process that can write to the directory")
	case OpUndo:
		return nil, errs.New(errs.Invalid, "malformed request: operation %d had removed snapshots or a fork back; remove them again", number)
	case OpRename, OpRenameFork, OpPolicy:
		return o, nil
	}

	if len(o.Kept) == 0 || o.BeforeView != 0 && c.Snapshots.At(o.BeforeView) == nil {
		return nil, errs.New(errs.NotExist, "what the undo of operation %d needs is no longer kept; see undo_seconds of the policy", number)
	}

	return o, nil
}

// NewUndo returns the record that undoes an operation other than an edit or an apply. op describes the undo.
func NewUndo(c *Catalogue, w *Workspace, op Op, caller actors.Caller, now time.Time) (Record, error) {
	o, err := c.UndoableOp(w, op.Undoes)
	if err != nil {
		return nil, err
	}

	op.Name, op.Target, op.NewName, op.View = o.Name, o.NewName, o.Target, o.View

	switch o.Name {
	case OpRename:
		if sn := w.Snapshots.Named(o.NewName); sn == nil || sn.View != o.View {
			return nil, fmt.Errorf("%w: %s was deleted or renamed again", ErrNotFound, o.NewName)
		}
		r, err := NewRename(c, w, o.NewName, o.Target, caller)
		if err == nil {
			r.Op = &op
		}
		return r, err

	case OpRenameFork:
		if f := w.forks[o.NewName]; f == nil || f.View != o.View {
			return nil, fmt.Errorf("%w: %s was deleted or renamed again", ErrNoFork, o.NewName)
		}
		r, err := w.NewRenameFork(o.NewName, o.Target)
		if err == nil {
			r.Op = &op
		}
		return r, err

	case OpPolicy:
		if set, err := w.Policy.Patch(o.PolicyPatch); err != nil || !reflect.DeepEqual(set, w.Policy) {
			return nil, errs.New(errs.Conflict, "what operation %d changed in the policy was changed again; set it with `amberfs policy`", o.Number)
		}
		r, err := w.NewSetPolicy(o.PolicyUndo, caller)
		if err == nil {
			op.NewName = ""
			err = r.Describe(w, &op)
		}
		return r, err
	}

	op.Name, op.Target, op.NewName = OpUndo, fmt.Sprintf("%s %s", o.Name, o.Target), ""
	if left := c.Snapshots.At(o.ResultView); left != nil && o.ResultView != 0 && !c.IsHidden(left) && w.checkDelete(left, caller, now) == nil {
		op.ResultView = o.ResultView // the undo removes this snapshot
	}

	r := &UndoRemoval{w.View, op}
	if o.Name != OpEndFork {
		return r, w.checkRenameAndDelete(caller)
	}

	if f := c.Workspaces.At(o.Kept[0]); w.forks[f.Name] != nil {
		return nil, errs.New(errs.Exist, "name in use: fork %q exists; rename it first", f.Name)
	}

	return r, c.checkLimits(w, 0)
}

// maxPatchTextBytes is the largest size in bytes of a patch of the policy in Op.Target.
const maxPatchTextBytes = 200

// Describe adds the change of the policy of w to op.
func (r *SetPolicy) Describe(w *Workspace, op *Op) (err error) {
	if op.PolicyPatch, err = w.Policy.PatchTo(r.Policy); err != nil {
		return err
	}

	if string(op.PolicyPatch) == "{}" {
		return nil
	}

	op.Target, r.Op = string(op.PolicyPatch[:min(len(op.PolicyPatch), maxPatchTextBytes)]), op
	op.PolicyUndo, err = r.Policy.PatchTo(w.Policy)

	return err
}

// UndoRemoval is the record of an undo that restores the snapshots or the fork that an operation removed.
type UndoRemoval struct {
	WS uint32 `json:"ws"`
	Op Op     `json:"op"`
}

func (*UndoRemoval) Type() Type { return TypeUndoRemoval }

func (r *UndoRemoval) apply(a *applyRun) error {
	w := a.cat.Workspaces.At(r.WS)
	if w == nil {
		return nil
	}

	o, err := w.OpByNumber(r.Op.Undoes)
	if err != nil {
		return err
	}

	for _, view := range o.Kept {
		delete(w.keptViews, view)
		if sn := a.cat.Snapshots.At(view); sn != nil {
			a.showSnapshot(w, sn)
		}
		if f := a.cat.Workspaces.At(view); f != nil {
			a.restoreFork(w, f, r.Op.Time)
		}
	}

	w.Snapshots.Sort()
	if r.Op.ResultView != 0 {
		if err := (&Delete{Views: []uint32{r.Op.ResultView}}).apply(a); err != nil {
			return err
		}
	}

	o.Kept = nil

	return a.logOp(w, &r.Op)
}

// showSnapshot adds a hidden snapshot to the list of its workspace. If its name is in use, showSnapshot gives it
// another name.
func (a *applyRun) showSnapshot(w *Workspace, sn *Snapshot) {
	sn.Name = w.freeName(sn.Name)
	a.cat.add(sn, &a.ToSeal)
}

// restoreFork restores f, a fork of w that has ended, and the forks in f.
func (a *applyRun) restoreFork(w, f *Workspace, now time.Time) {
	w.forks[f.Name] = f
	f.WalkFamily(func(in *Workspace) {
		in.Ended = 0
		if in.Expires != nil && in.Expires.Before(now) {
			in.Expires = nil
		}

		a.trees.SetViewEnded(in.View, false)
		a.cat.TouchWorkspace(in)
	})

	a.countForkChange(f)
}
