package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/catalogue"
)

// ListOps has the arguments of the operation ops.
type ListOps struct {
	Limit int `json:"limit,omitempty" jsonschema:"at most this many; 0: all"`
}

// OpList is the result of ListOps, newest first.
type OpList struct {
	Ops []OpState `json:"ops"`
}

// OpState is an operation that changed what users see.
type OpState struct {
	Number      uint64    `json:"number" jsonschema:"the number for undo-op"`
	Name        string    `json:"name" jsonschema:"the operation: restore, merge, import, refresh, undo-by, undo-op, apply, remove, compact, rename, delete-fork, rename-fork, set-policy"`
	Of          string    `json:"of,omitempty" jsonschema:"the snapshots, the fork, the actor, the directory or the fields"`
	To          string    `json:"to,omitempty" jsonschema:"the new name, of a rename"`
	At          time.Time `json:"at"`
	Actor       string    `json:"actor,omitempty" jsonschema:"who asked for it"`
	Command     string    `json:"command,omitempty" jsonschema:"the program that asked for it"`
	UID         uint32    `json:"uid"`
	Edit        bool      `json:"edit,omitempty" jsonschema:"it changed files of the workspace"`
	Kept        time.Time `json:"kept,omitzero" jsonschema:"until when it can be undone, if it needs anything for that"`
	Undoes      uint64    `json:"undoes,omitempty" jsonschema:"the number of the operation that it undid"`
	Undone      bool      `json:"undone,omitempty"`
	Interrupted bool      `json:"interrupted,omitempty" jsonschema:"an apply that was killed"`
}

// UndoOp has the arguments of the operation undo-op.
type UndoOp struct {
	Number uint64 `json:"number" jsonschema:"the number of the operation in ops"`
	snapshot.MergeRules
}

// UndoneOp is the result of an undo: the undone operation, and the paths that the undo changed.
type UndoneOp struct {
	Op OpState `json:"op"`
	snapshot.MergeResult
}

// ops lists the operations of the workspace, newest first. For a caller in the mount it leaves out paths
// of the host.
func (*history) ops(_ context.Context, r *Request, a ListOps) (OpList, error) {
	out := OpList{Ops: []OpState{}}
	kept := r.Workspace.Ops().UndoDeadlines()
	for _, op := range slices.Backward(r.Workspace.Ops().List()) {
		st := opState(r, op)
		st.Kept = kept[op.Number]
		if out.Ops = append(out.Ops, st); len(out.Ops) == a.Limit {
			break
		}
	}

	return out, nil
}

func opState(r *Request, op catalogue.Op) OpState {
	st := OpState{
		Number: op.Number, Name: op.Name, Of: op.Target, To: op.NewName, At: op.Time, Actor: op.Actor, Command: op.Command, UID: op.UID,
		Edit: op.BeforeView != 0, Undoes: op.Undoes, Undone: op.Undone, Interrupted: op.Apply != nil && op.Apply.After == "",
	}
	if op.Apply != nil && !r.Caller.ViaSocket {
		st.Of = ""
	}

	return st
}

// undoOp undoes one operation.
func (*history) undoOp(ctx context.Context, r *Request, a UndoOp) (UndoneOp, error) {
	undone, err := r.Workspace.Ops().ByNumber(a.Number)
	if err != nil {
		return UndoneOp{}, err
	}
	if undone.Name == catalogue.OpPolicy && !r.Caller.ViaSocket && !r.Caller.OwnsStore() {
		return UndoneOp{}, errs.Fail(errs.Perm, "only the owner of the store can call set-policy")
	}

	op, res, err := r.Workspace.Ops().Undo(ctx, a.Number, snapshot.MergeOptions{
		MergeRules: a.MergeRules,
		Merge:      gitbridge.MergeConfigs(r.textMerger().Merge), Caller: r.Caller, ListCharge: r.listMemoryCharge(),
	})
	done := UndoneOp{MergeResult: res, Op: opState(r, op)}
	return done, explainConflict(err, done, res.Conflicts, fmt.Sprintf("changed since operation %d; nothing was changed", a.Number),
		"decide with --ours, which keeps what is there, or --theirs")
}

// undoneOpLines returns the result of an undo as text.
func undoneOpLines(result *UndoneOp) string {
	what := strings.TrimSpace(fmt.Sprintf("operation %d: %s %s", result.Op.Number, result.Op.Name, gitquote.ReadableName(result.Op.Of)))
	if result.Op.Edit {
		paths, inGit := WithoutGit(result.Paths)
		return ChangedText("undid", "would undo", result.DryRun, what, result.Changed, result.Changed, paths, inGit)
	}
	if result.DryRun {
		return "would undo " + what + "\n"
	}
	return "undid " + what + "\n"
}

// undoDeadlineLine returns a line with the time until which undo can restore something, "" for the zero time.
func undoDeadlineLine(until time.Time) string {
	if until.IsZero() {
		return ""
	}
	return "amberfs undo restores it until " + until.Format(time.DateTime) + "\n"
}
