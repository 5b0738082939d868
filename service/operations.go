package service

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/catalogue"
)

// OpApply is the name of an apply to a directory in a list of operations.
const OpApply = "apply"

// ops lists the operations of the workspace, newest first. A caller in the mount does not learn paths of the
// host.
func (s *Service) ops(_ context.Context, r *Request, a ListOps) (OpList, error) {
	out := OpList{Ops: []OpState{}}
	for _, op := range slices.Backward(r.Workspace.Ops().List()) {
		st := OpState{Number: op.Number, Name: op.Name, Of: op.Of, At: op.At, Actor: op.Actor, Command: op.Command, UID: op.UID, Undone: op.Undone}
		if op.Apply != nil && !r.Caller.Direct {
			st.Of = ""
		}
		st.Interrupted = op.Apply != nil && op.Apply.After == ""

		if out.Ops = append(out.Ops, st); len(out.Ops) == a.Limit {
			break
		}
	}

	return out, nil
}

// recordApply keeps the state of a directory at the paths of an apply. The client reads the directory.
func (s *Service) recordApply(ctx context.Context, r *Request, a RecordApply) (RecordedApply, error) {
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

	st, release, err := s.readOver(ctx, r, id)
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

func (s *Service) undoneApply(_ context.Context, r *Request, a UndoneApply) (None, error) {
	return None{}, r.Workspace.Ops().UndoneApply(a.Number, r.Caller)
}
