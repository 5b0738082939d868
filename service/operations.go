package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/catalogue"
)

// listOps lists the operations of the workspace, newest first. A caller in the mount does not learn paths of the
// host.
func listOps(_ context.Context, r *Request, a ListOps) (OpList, error) {
	out := OpList{Ops: []OpState{}}
	kept := r.Workspace.Ops().KeptUntil()
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
		Number: op.Number, Name: op.Name, Of: op.Of, To: op.To, At: op.At, Actor: op.Actor, Command: op.Command, UID: op.UID,
		Edit: op.Before != 0, Undoes: op.Undoes, Undone: op.Undone, Interrupted: op.Apply != nil && op.Apply.After == "",
	}
	if op.Apply != nil && !r.Caller.Direct {
		st.Of = ""
	}

	return st
}

// undoOp undoes one operation.
func undoOp(ctx context.Context, r *Request, a UndoOp) (UndoneOp, error) {
	undone, err := r.Workspace.Ops().Named(a.Number)
	if err != nil {
		return UndoneOp{}, err
	}
	if undone.Name == catalogue.OpPolicy {
		setPolicy := Op{Name: "set-policy", Access: Own}
		if err := setPolicy.Admit(ctx, r, nil); err != nil {
			return UndoneOp{}, err
		}
	}

	op, res, err := r.Workspace.Ops().Undo(ctx, a.Number, snapshot.MergeOptions{
		Ours: a.Ours, Theirs: a.Theirs, DryRun: a.DryRun,
		Merge: gitbridge.MergeConfigs(r.textMerger().Merge), Caller: r.Caller, List: r.list(),
	})
	res.Paths = emptyIfNil(res.Paths)
	done := UndoneOp{MergeResult: res, Op: opState(r, op)}
	return done, explainConflict(err, done, res.Conflicts, fmt.Sprintf("changed since operation %d; nothing was changed", a.Number),
		"decide with --ours, which keeps what is there, or --theirs")
}

// undoneOpLines is the text of an undo of an operation.
func undoneOpLines(done *UndoneOp) string {
	what := strings.TrimSpace(fmt.Sprintf("operation %d: %s %s", done.Op.Number, done.Op.Name, gitquote.Readable(done.Op.Of)))
	if done.Op.Edit {
		paths, inGit := WithoutGit(done.Paths)
		return ChangedText("undid", "would undo", done.DryRun, what, done.Changed, done.Changed, paths, inGit)
	}
	if done.DryRun {
		return "would undo " + what + "\n"
	}
	return "undid " + what + "\n"
}

// keptLine returns a line with the time until which undo can restore something, "" for the zero time.
func keptLine(until time.Time) string {
	if until.IsZero() {
		return ""
	}
	return "amberfs undo restores it until " + until.Format(time.DateTime) + "\n"
}

// recordApply keeps the state of a directory at the paths of an apply. The client reads the directory.
func recordApply(ctx context.Context, r *Request, a RecordApply) (RecordedApply, error) {
	base := a.Base
	if a.Number != 0 {
		known, err := r.Workspace.Ops().Named(a.Number)
		if err != nil {
			return RecordedApply{}, err
		}
		if known.Apply == nil {
			return RecordedApply{}, errs.Fail(errs.Invalid, "operation %d is no apply", a.Number)
		}
		base = known.Apply.Before
	}

	id, err := cas.ParseHash(base)
	if err != nil {
		return RecordedApply{}, errs.Fail(errs.Invalid, "base: %w", err)
	}

	st, release, err := readOver(ctx, r, id)
	if err != nil {
		return RecordedApply{}, err
	}
	defer release()

	done := RecordedApply{Number: a.Number, State: base}
	if st != nil {
		done.State = idOf(st)
	}

	if a.Number != 0 {
		return done, r.Workspace.Ops().EndApply(a.Number, done.State, r.Caller)
	}

	if _, err := cas.ParseHash(a.Now); err != nil {
		return RecordedApply{}, errs.Fail(errs.Invalid, "now: %w", err)
	}
	done.Number, err = r.Workspace.Ops().BeginApply(a.Dir, catalogue.Apply{Own: a.Own, Before: done.State, Now: a.Now}, r.Caller)

	return done, err
}

func undoneApply(_ context.Context, r *Request, a UndoneApply) (None, error) {
	return None{}, r.Workspace.Ops().UndoneApply(a.Number, r.Caller)
}
