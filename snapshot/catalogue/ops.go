package catalogue

import (
	"fmt"
	"slices"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
)

// An Op is an operation of a workspace that changed what users see.
type Op struct {
	Number  uint64    `json:"number"` // from 1, in the order of the operations of the workspace
	Name    string    `json:"name"`   // of the operation
	Of      string    `json:"of,omitempty"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor,omitempty"`
	Command string    `json:"command,omitempty"`
	UID     uint32    `json:"uid"`
	Undone  bool      `json:"undone,omitempty"`
	Apply   *Apply    `json:"apply,omitempty"`
}

// An Apply is an apply of the workspace to Op.Of, a directory of the host. The states are ids.
type Apply struct {
	// Own is set if the store was filled from the directory. Dir is the WorkspaceRecord.Dir before.
	Own bool   `json:"own,omitempty"`
	Dir string `json:"dir,omitempty"`
	// Before and After are the states of the directory. After is empty if the apply was killed.
	Before string `json:"before"`
	After  string `json:"after,omitempty"`
	Now    string `json:"now"` // the state of the workspace that was applied
}

// ids returns the states that the operation needs to be undone.
func (o *Op) ids() (out []string) {
	if a := o.Apply; a != nil {
		out = append(out, a.Dir, a.Before, a.After, a.Now)
	}
	return slices.DeleteFunc(out, func(id string) bool { return id == "" })
}

// OpIDs returns the ids of the states that operations need to be undone.
func (r *WorkspaceRecord) OpIDs() (out []string) {
	for i := range r.Ops {
		out = append(out, r.Ops[i].ids()...)
	}
	return out
}

// maxOps is the most operations that a workspace remembers.
const maxOps = 1000

// ErrNoOp means that an operation does not exist.
var ErrNoOp = errs.New(errs.NotExist, "no such operation")

// Op returns an operation by its number.
func (w *Workspace) Op(number uint64) (*Op, error) {
	for i := range w.Ops {
		if w.Ops[i].Number == number {
			return &w.Ops[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %d; see `amberfs ops`", ErrNoOp, number)
}

// NextOp returns the number of the next operation.
func (w *Workspace) NextOp() uint64 {
	if len(w.Ops) == 0 {
		return 1
	}
	return w.Ops[len(w.Ops)-1].Number + 1
}

// LogOp adds an operation to a workspace, or replaces the one with its number.
type LogOp struct {
	WS uint32 `json:"ws"`
	Op Op     `json:"op"`
	// Drop removes it: it changed nothing.
	Drop bool `json:"drop,omitempty"`
	// Back makes Op.Apply.Dir the WorkspaceRecord.Dir again.
	Back bool `json:"back,omitempty"`
}

func (*LogOp) Type() Type { return TypeLogOp }

func (r *LogOp) apply(a *applyRun) error {
	w, ok := a.Workspaces[r.WS]
	if !ok {
		return nil
	}

	for _, id := range r.Op.ids() {
		h, err := cas.ParseHash(id)
		if err != nil {
			return err
		}
		a.Roots = append(a.Roots, Root{ID: h})
	}

	switch known, err := w.Op(r.Op.Number); {
	case r.Drop:
		w.Ops = slices.DeleteFunc(w.Ops, func(o Op) bool { return o.Number == r.Op.Number })
	case err == nil:
		*known = r.Op
	default:
		w.Ops = append(w.Ops[max(0, len(w.Ops)-maxOps+1):], r.Op)
	}
	if r.Back {
		w.Dir = r.Op.Apply.Dir
	}

	a.TouchWorkspace(w)

	return nil
}
