package service

import (
	"context"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
)

// resume returns the result of an operation that the previous daemon carried out and did not answer.
// A snapshot with the option Wait is waited for. If the result cannot be reconstructed, resume
// returns an error that says that the operation took effect.
func (s *Service) resume(ctx context.Context, r *Request, args any) (any, error) {
	c := r.Carried

	switch a := args.(type) {
	case snapshot.CaptureOptions:
		if c.Captured.Name != "" {
			return s.resumeSnapshot(ctx, r, a)
		}
	case snapshot.RestoreOptions, Revert:
		if c.Edit != nil {
			return snapshot.RestoreResult{Snapshot: c.Edit.Of, Changes: c.Changes(), Kept: c.Edit.Kept}, nil
		}
	case snapshot.MergeOptions:
		if c.Edit != nil {
			return snapshot.PromoteResult{Fork: c.Edit.Of, MergeResult: snapshot.MergeResult{Changes: c.Changes()}}, nil
		}
	case snapshot.ForkOptions:
		if c.Forked != "" && a.As == "" {
			f, err := r.Workspace.Forks().Named(c.Forked)
			if err != nil {
				return nil, err
			}
			return Forked{Name: c.Forked, Snapshot: f.BeganFrom(), Path: s.forkPath(r, c.Forked)}, nil
		}

	case Rename:
		return r.Workspace.Find(a.To)
	case RenameFork:
		return Forked{Name: a.To, Path: s.forkPath(r, a.To)}, nil
	case Remove:
		if len(a.Names) == 1 {
			return Removed{Names: a.Names}, nil
		}
	case DeleteFork:
		return DeletedFork{Name: a.Name, Snapshot: c.Ended.Name}, nil
	case SetPolicy:
		return r.Workspace.Policy(), nil
	}

	return nil, errs.Fail(errs.Failed, "the daemon ended after it carried out %q and before it answered", OpOf(args).Name).
		WithHint("look at amberfs list and amberfs log before you repeat it")
}

// resumeSnapshot returns the snapshot of r.Carried, with its id if the caller waits for that.
func (s *Service) resumeSnapshot(ctx context.Context, r *Request, a snapshot.CaptureOptions) (any, error) {
	if !a.Wait {
		return r.Carried.Captured, nil
	}
	sealed, err := r.Workspace.Snapshots().WaitSealed(ctx, r.Carried.Captured.Name)
	if err != nil {
		return r.Carried.Captured, errs.Fail(errs.ScriptKind(err), "snapshot %s was taken, but is not stored: %w", r.Carried.Captured.Name, err)
	}

	return sealed, nil
}
