package service

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
)

// The functions for Op.Resume are here: each returns the result of a call that the previous daemon carried
// out and did not answer, from Request.Carried.

// errUnknown is the error of Op.Resume if the result cannot be reconstructed.
var errUnknown = errors.New("the result is not known")

// resume returns the result of an operation that the previous daemon carried out and did not answer. If
// it cannot be reconstructed, resume returns an error that says that the operation took effect.
func resume(ctx context.Context, r *Request, o *Op, args any) (any, error) {
	if o.Resume != nil {
		if result, err := o.Resume(ctx, r, args); !errors.Is(err, errUnknown) {
			return result, err
		}
	}

	return nil, errs.Fail(errs.Failed, "the daemon ended after it carried out %q and before it answered", o.Name).
		WithHint("look at amberfs list and amberfs log before you repeat it")
}

// resumeSnapshot waits until the snapshot has its id, if the caller waits for that.
func resumeSnapshot(ctx context.Context, r *Request, a snapshot.CaptureOptions) (info.Info, error) {
	made := r.Carried.Captured
	if made.Name == "" {
		return made, errUnknown
	}
	if !a.Wait {
		return made, nil
	}

	return awaitSealed(ctx, r, made)
}

func resumeRestore(_ context.Context, r *Request, _ any) (any, error) {
	c := r.Carried
	if c.Edit == nil {
		return nil, errUnknown
	}
	return snapshot.RestoreResult{Snapshot: c.Edit.Of, Changes: c.Changes(), Kept: c.Edit.Kept}, nil
}

func resumeMerge(_ context.Context, r *Request, _ any) (any, error) {
	c := r.Carried
	if c.Edit == nil {
		return nil, errUnknown
	}
	return snapshot.PromoteResult{Fork: c.Edit.Of, MergeResult: snapshot.MergeResult{Changes: c.Changes()}}, nil
}

func resumeFork(_ context.Context, r *Request, a snapshot.ForkOptions) (Forked, error) {
	name := r.Carried.Forked
	if name == "" || a.As != "" {
		return Forked{}, errUnknown
	}

	f, err := r.Workspace.Forks().Named(name)
	if err != nil {
		return Forked{}, err
	}

	return Forked{Name: name, Snapshot: f.BeganFrom(), Path: forkPath(r, name)}, nil
}

func resumeRemove(_ context.Context, _ *Request, a Remove) (Removed, error) {
	if len(a.Names) != 1 {
		return Removed{}, errUnknown
	}
	return Removed{Names: a.Names}, nil
}
