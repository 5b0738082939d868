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

// ToUndo returns an operation that can be undone.
func (c *Catalogue) ToUndo(w *Workspace, number uint64) (*Op, error) {
	if err := w.Alive(); err != nil {
		return nil, err
	}
	o, err := w.Op(number)
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

	if len(o.Kept) == 0 || o.Before != 0 && c.Snapshots.At(o.Before) == nil {
		return nil, errs.New(errs.NotExist, "what the undo of operation %d needs is no longer kept; see undo_seconds of the policy", number)
	}

	return o, nil
}

// NewUndo returns the record that undoes an operation other than an edit or an apply. op describes the undo.
func NewUndo(c *Catalogue, w *Workspace, op Op, by actors.Caller, now time.Time) (Record, error) {
	o, err := c.ToUndo(w, op.Undoes)
	if err != nil {
		return nil, err
	}

	op.Name, op.Of, op.To, op.View = o.Name, o.To, o.Of, o.View

	switch o.Name {
	case OpRename:
		if sn := w.Snapshots.Named(o.To); sn == nil || sn.View != o.View {
			return nil, fmt.Errorf("%w: %s was deleted or renamed again", ErrNotFound, o.To)
		}
		r, err := NewRename(c, w, o.To, o.Of, by)
		if err == nil {
			r.Op = &op
		}
		return r, err

	case OpRenameFork:
		if f := w.Forks[o.To]; f == nil || f.View != o.View {
			return nil, fmt.Errorf("%w: %s was deleted or renamed again", ErrNoFork, o.To)
		}
		r, err := w.NewRenameFork(o.To, o.Of)
		if err == nil {
			r.Op = &op
		}
		return r, err

	case OpPolicy:
		if set, err := w.Policy.Patch(o.Set); err != nil || !reflect.DeepEqual(set, w.Policy) {
			return nil, errs.New(errs.Conflict, "what operation %d changed in the policy was changed again; set it with `amberfs policy`", o.Number)
		}
		r, err := w.NewPolicy(o.Was, by)
		if err == nil {
			op.To = ""
			err = r.Describe(w, &op)
		}
		return r, err
	}

	op.Name, op.Of, op.To = OpUndo, fmt.Sprintf("%s %s", o.Name, o.Of), ""
	if left := c.Snapshots.At(o.Left); left != nil && o.Left != 0 && !c.Hidden(left) && w.mayDelete(left, by, now) == nil {
		op.Left = o.Left // the undo removes this snapshot
	}

	r := &Return{w.View, op}
	if o.Name != OpEndFork {
		return r, w.mayRename(by)
	}

	if f := c.Workspaces.At(o.Kept[0]); w.Forks[f.Name] != nil {
		return nil, errs.New(errs.Exist, "name in use: fork %q exists; rename it first", f.Name)
	}

	return r, c.checkLimits(w, 0)
}

// maxPatchText is the largest size in bytes of a patch of the policy in Op.Of.
const maxPatchText = 200

// Describe adds the change of the policy of w to op.
func (r *Policy) Describe(w *Workspace, op *Op) (err error) {
	if op.Set, err = w.Policy.Difference(r.Policy); err != nil {
		return err
	}

	if string(op.Set) == "{}" {
		return nil
	}

	op.Of, r.Op = string(op.Set[:min(len(op.Set), maxPatchText)]), op
	op.Was, err = r.Policy.Difference(w.Policy)

	return err
}

// Return is the record of an undo that restores the snapshots or the fork that an operation removed.
type Return struct {
	WS uint32 `json:"ws"`
	Op Op     `json:"op"`
}

func (*Return) Type() Type { return TypeReturn }

func (r *Return) apply(a *applyRun) error {
	w := a.cat.Workspaces.At(r.WS)
	if w == nil {
		return nil
	}

	o, err := w.Op(r.Op.Undoes)
	if err != nil {
		return err
	}

	for _, view := range o.Kept {
		delete(w.kept, view)
		if sn := a.cat.Snapshots.At(view); sn != nil {
			a.show(w, sn)
		}
		if f := a.cat.Workspaces.At(view); f != nil {
			a.resume(w, f, r.Op.At)
		}
	}

	w.Snapshots.Sort()
	if r.Op.Left != 0 {
		if err := (&Delete{Views: []uint32{r.Op.Left}}).apply(a); err != nil {
			return err
		}
	}

	o.Kept = nil

	return a.logOp(w, &r.Op)
}

// show adds a hidden snapshot to the list of its workspace. If its name is in use, show gives it another
// name.
func (a *applyRun) show(w *Workspace, sn *Snapshot) {
	sn.Name = w.freeName(sn.Name)
	a.addSnapshot(sn)
}

// resume restores f, a fork of w that has ended, and the forks in f.
func (a *applyRun) resume(w, f *Workspace, now time.Time) {
	w.Forks[f.Name] = f
	f.Family(func(in *Workspace) {
		in.Ended = 0
		if in.Expires != nil && in.Expires.Before(now) {
			in.Expires = nil
		}

		a.trees.EndView(in.View, false)
		a.cat.TouchWorkspace(in)
	})

	a.touchForks(f)
}
