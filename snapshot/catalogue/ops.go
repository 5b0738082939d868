package catalogue

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
)

// The names of operations other than edits of the workspace.
const (
	OpApply      = "apply"
	OpRemove     = "remove"
	OpCompact    = "compact"
	OpRename     = "rename"
	OpRenameFork = "rename-fork"
	OpEndFork    = "delete-fork"
	OpPolicy     = "set-policy"
	OpUndo       = "undo-op"
)

// An Op is an operation of a workspace that users can list and undo.
type Op struct {
	Number  uint64    `json:"number"` // from 1, in the order of the operations of the workspace
	Name    string    `json:"name"`   // one of the constants Op..., such as OpRename
	Target  string    `json:"of,omitempty"`
	NewName string    `json:"to,omitempty"` // the new name, of a rename
	Time    time.Time `json:"at"`
	Actor   string    `json:"actor,omitempty"`
	Command string    `json:"command,omitempty"`
	UID     uint32    `json:"uid"`
	Undone  bool      `json:"undone,omitempty"`
	Undoes  uint64    `json:"undoes,omitempty"` // the number of the operation that this operation undid

	// Kept are the views of snapshots and forks that exist only so that the operation can be undone: the
	// snapshots and forks that it removed, or the state after an edit. Users do not see them.
	Kept       []uint32 `json:"kept,omitempty"`
	BeforeView uint32   `json:"before,omitempty"` // the view of the snapshot before an edit
	View       uint32   `json:"view,omitempty"`   // the view of the snapshot or fork that was renamed
	ResultView uint32   `json:"left,omitempty"`   // the view of the snapshot that a compaction or the end of a fork left, or that their undo removed

	// PolicyPatch and PolicyUndo are patches with the fields of the policy that changed: the new and the old values.
	PolicyPatch json.RawMessage `json:"set,omitempty"`
	PolicyUndo  json.RawMessage `json:"was,omitempty"`

	Apply *DirApply `json:"apply,omitempty"`
}

// A DirApply describes an operation that wrote the workspace's changes to Op.Target, a directory of the host.
// The states are given by their ids.
type DirApply struct {
	// FilledStore is set if the store was filled from the directory. Then Dir is the value of WorkspaceRecord.DirState
	// before the apply.
	FilledStore bool   `json:"own,omitempty"`
	Dir         string `json:"dir,omitempty"`
	// Before and After are the states of the directory before and after the apply. After is empty if the
	// apply was killed.
	Before       string `json:"before"`
	After        string `json:"after,omitempty"`
	AppliedState string `json:"now"` // the state of the workspace that was applied
}

// stateIDs returns the ids of the states that are needed to undo the operation. Only an apply needs states.
func (o *Op) stateIDs() (out []string) {
	if a := o.Apply; a != nil {
		out = append(out, a.Dir, a.Before, a.After, a.AppliedState)
	}
	return slices.DeleteFunc(out, func(id string) bool { return id == "" })
}

// OpStateIDs returns the ids of the states that are needed to undo the workspace's operations.
func (r *WorkspaceRecord) OpStateIDs() (out []string) {
	for i := range r.Ops {
		out = append(out, r.Ops[i].stateIDs()...)
	}
	return out
}

// maxOps is the largest number of operations that a workspace keeps.
const maxOps = 200

// ErrNoOp means that an operation does not exist.
var ErrNoOp = errs.New(errs.NotExist, "no such operation")

// OpByNumber returns an operation by its number.
func (w *Workspace) OpByNumber(number uint64) (*Op, error) {
	for i := range w.Ops {
		if w.Ops[i].Number == number {
			return &w.Ops[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %d; see `amberfs ops`", ErrNoOp, number)
}

// AppliedSinceRead returns the id of the state that was applied to the directory after it was last read for the
// workspace, if this was the last operation, and else "".
func (w *Workspace) AppliedSinceRead() string {
	if len(w.Ops) == 0 {
		return ""
	}
	op := &w.Ops[len(w.Ops)-1]
	if a := op.Apply; a != nil && a.FilledStore && !op.Undone && a.Dir == w.DirState {
		return a.AppliedState
	}
	return ""
}

// NextOpNumber returns the number of the next operation.
func (w *Workspace) NextOpNumber() uint64 {
	if len(w.Ops) == 0 {
		return 1
	}
	return w.Ops[len(w.Ops)-1].Number + 1
}

// LogOp is the record that adds an apply to the operations of a workspace. If an operation with the same number
// exists, the apply replaces it.
type LogOp struct {
	WS uint32 `json:"ws"`
	Op Op     `json:"op"`
	// RemoveOp removes the operation instead, because the apply had no effect.
	RemoveOp bool `json:"drop,omitempty"`
	// ResetDir sets WorkspaceRecord.DirState back to Op.Apply.Dir.
	ResetDir bool `json:"back,omitempty"`
}

func (*LogOp) Type() Type { return TypeLogOp }

func (r *LogOp) apply(a *applyRun) error {
	w := a.cat.Workspaces.At(r.WS)
	if w == nil {
		return nil
	}

	if err := a.addRoots(r.Op.stateIDs()...); err != nil {
		return err
	}

	switch known, err := w.OpByNumber(r.Op.Number); {
	case r.RemoveOp:
		w.Ops = slices.DeleteFunc(w.Ops, func(o Op) bool { return o.Number == r.Op.Number })
	case err == nil:
		*known = r.Op
	default:
		if err := a.logOp(w, &r.Op); err != nil {
			return err
		}
	}
	if r.ResetDir {
		w.DirState = r.Op.Apply.Dir
	}

	a.cat.TouchWorkspace(w)

	return nil
}

// logOp adds an operation to a workspace, and marks the operation that it undid. If there are more than
// maxOps, it removes the oldest operation. op is nil for a change that no user requested.
func (a *applyRun) logOp(w *Workspace, op *Op) error {
	if op == nil {
		return nil
	}

	if undone, err := w.OpByNumber(op.Undoes); err == nil {
		undone.Undone = true
		if err := a.dropKept(w, undone); err != nil {
			return err
		}
	}

	if len(w.Ops) >= maxOps {
		if err := a.dropKept(w, &w.Ops[0]); err != nil {
			return err
		}
		w.Ops = slices.Delete(w.Ops, 0, 1)
	}

	w.Ops = append(w.Ops, *op)
	w.addKeptViews(op)
	a.cat.TouchWorkspace(w)

	return nil
}

// addKeptViews adds the views that an operation keeps to w.keptViews.
func (w *Workspace) addKeptViews(op *Op) {
	for _, view := range op.Kept {
		w.keptViews[view] = true
	}
}

// hideSnapshots removes snapshots from the list of their workspace w, because an operation keeps them for its undo.
func (a *applyRun) hideSnapshots(w *Workspace, snaps []*Snapshot) {
	for _, sn := range snaps {
		a.cat.Bytes.Subtract(sn.Bytes)
		a.cat.Unwritten.MarkChanged(SnapshotPrefix, sn.View)
	}

	w.Snapshots.Remove(slices.Clone(snaps), 0, 0)
}

// IsHidden reports whether a snapshot is hidden from users, because it is only kept for the undo of an operation.
func (c *Catalogue) IsHidden(sn *Snapshot) bool {
	w := c.Workspaces.At(sn.WS)
	return w != nil && w.keptViews[sn.View]
}

// dropKept removes the snapshots and the fork that an operation of w keeps.
func (a *applyRun) dropKept(w *Workspace, o *Op) error {
	for _, view := range o.Kept {
		if sn := a.cat.Snapshots.At(view); sn != nil {
			a.OwnBytes += sn.UniqueBytes
			a.removeSnapshots(sn)
		}
		if f := a.cat.Workspaces.At(view); f != nil {
			if err := f.newUncheckedDiscard().apply(a); err != nil {
				return err
			}
		}

		delete(w.keptViews, view)
		a.HasGarbage = true
	}

	o.Kept = nil
	a.cat.TouchWorkspace(w)

	return nil
}

// ForgetOps is a record that removes the snapshots and forks that are kept by operations of a workspace older than
// a given time. Then these operations cannot be undone any more.
type ForgetOps struct {
	WS     uint32    `json:"ws"`
	Before time.Time `json:"before"`
}

func (*ForgetOps) Type() Type { return TypeForgetOps }

// NewForgetOps returns the record for the operations older than the given time, nil if they keep no snapshot or
// fork. next is the time of the first later operation that keeps a snapshot or fork. If there is no such operation,
// next is zero.
func (w *Workspace) NewForgetOps(before time.Time) (r *ForgetOps, next time.Time) {
	for i := range w.Ops {
		o := &w.Ops[i]
		switch {
		case len(o.Kept) == 0:
		case o.Time.Before(before):
			r = &ForgetOps{w.View, before}
		default:
			return r, o.Time
		}
	}
	return r, time.Time{}
}

func (r *ForgetOps) apply(a *applyRun) error {
	w := a.cat.Workspaces.At(r.WS)
	if w == nil {
		return nil
	}

	for i := range w.Ops {
		if o := &w.Ops[i]; o.Time.Before(r.Before) {
			if err := a.dropKept(w, o); err != nil {
				return err
			}
		}
	}

	return nil
}

// maxKeptForUndo is the largest number of snapshots and forks that main, or a fork of main with the forks in it,
// keeps for undo. maxKeptTextBytes is the largest size of their messages and labels.
const (
	maxKeptForUndo   = 10_000
	maxKeptTextBytes = 1 << 20
)

// MayKeep reports whether an operation of w may keep the snapshots and the fork that it deletes, so that the
// operation can be undone. fork may be nil. In a fork with a limit of bytes operations keep none, because
// deletions must free bytes.
func (c *Catalogue) MayKeep(w *Workspace, snaps []*Snapshot, fork *Workspace) bool {
	payer := c.payer(w)
	rules := payer.Policy
	if payer.Fork {
		rules = c.Parent(payer).Policy
	}
	if rules.UndoSeconds == 0 || payer.Fork && (rules.Forks.UnsharedBytes > 0 || payer.Policy.UnsharedBytes > 0) {
		return false
	}

	var n int
	var text int64
	count := func(snaps ...*Snapshot) {
		n += len(snaps)
		for _, sn := range snaps {
			text += sn.textSize()
		}
	}
	countFork := func(f *Workspace) {
		f.WalkFamily(func(in *Workspace) {
			n++
			count(in.Snapshots.All()...)
		})
	}

	count(snaps...)
	if fork != nil {
		countFork(fork)
	}

	for _, in := range c.Workspaces.All() {
		if len(in.keptViews) == 0 || c.payer(in) != payer {
			continue
		}
		for view := range in.keptViews {
			if sn := c.Snapshots.At(view); sn != nil {
				count(sn)
			} else if f := c.Workspaces.At(view); f != nil {
				countFork(f)
			}
		}
	}

	return n <= maxKeptForUndo && text <= maxKeptTextBytes
}

// payer returns the workspace that is charged for the views that operations of w keep: main, or the fork of main
// that is w or contains w. If w has ended, it is the payer of the workspace whose operation keeps w.
func (c *Catalogue) payer(w *Workspace) *Workspace {
	for w.Ended != 0 {
		w = c.Parent(c.Workspaces.At(w.Ended))
	}
	if !w.Fork {
		return w
	}
	return c.UppermostFork(w)
}
