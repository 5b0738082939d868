package service

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// claim returns the fork of a label. If the label was claimed here before and REMOTE@SNAPSHOT is a
// later state of the same label, the fork gets that state.
func (s *Service) claim(ctx context.Context, r *Request, a Claim) (Claimed, error) {
	_, err := policy.ParseTTL(a.TTL)
	if err != nil {
		return Claimed{}, err
	}
	forks := r.Workspace.Forks()
	o := snapshot.ForkOptions{Name: a.Label, TTL: a.TTL, Caller: r.Caller}
	if isRemote(a.From) && forks.Claimed(a.Label) {
		o.Snapshot, err = s.catchUp(ctx, r, a)
		o.Newer = o.Snapshot != ""
	} else {
		o.Snapshot, err = s.localName(ctx, r, a.From)
	}
	if err != nil {
		return Claimed{}, err
	}
	got, err := forks.Claim(o)
	if err != nil {
		return Claimed{}, err
	}
	if o.Newer {
		got.Tier, got.From = snapshot.Newer, o.Snapshot
	}
	return Claimed{Path: s.forkPath(r, a.Label), Tier: got.Tier, From: got.From}, nil
}

// catchUp looks whether a state on a remote continues what a label has here. If it does, the fork of
// the label is restored to it, and its name is returned; if there is no fork, its name in the
// workspace. It is "" if the label has that state or a later one. A remote that cannot be asked stops
// no sandbox.
func (s *Service) catchUp(ctx context.Context, r *Request, a Claim) (string, error) {
	ref, err := s.refOf(ctx, r, a.From, false)
	if err == nil && ref.Claim == a.Label {
		ref, err = s.refOf(ctx, r, a.From, true) // it moves with each push of that name
	}
	if err != nil {
		s.Log.Warn("claim: the remote cannot be asked for a later state", "label", a.Label, "from", a.From, "err", err)
		return "", nil
	}
	if ref.Claim != a.Label { // what forks of many labels begin with
		return "", nil
	}
	fork, err := r.Workspace.Forks().Named(a.Label)
	if err != nil {
		return s.catchUpLeft(ctx, r, a, ref)
	}
	if slices.Contains(fork.Lineage(), ref.ID) {
		return "", nil
	}
	in := *r
	in.Workspace, in.op = fork, nil
	name := ""
	err = s.Turns.Do(ctx, func(ctx context.Context) (err error) { // the rest of a claim is cheap
		since := fork.NewestOf(ref.Lineage)
		if since == "" || s.changedSince(ctx, fork, since) {
			return bothWentOn(a)
		}
		if name, err = s.nameOf(&in, ref); err == nil {
			_, err = s.restore(ctx, &in, snapshot.RestoreOptions{Name: name})
		}
		return err
	})
	return name, err
}

// catchUpLeft is catchUp for a label whose fork has ended.
func (s *Service) catchUpLeft(ctx context.Context, r *Request, a Claim, ref *remote.Ref) (string, error) {
	left, ok := r.Workspace.Forks().Left(a.Label)
	if !ok {
		return "", nil
	}
	left, err := r.Workspace.Snapshots().WaitSealed(ctx, left.Name)
	switch {
	case err != nil:
		return "", err
	case left.ID == ref.ID || slices.Contains(left.Lineage, ref.ID):
		return "", nil
	case !slices.Contains(ref.Lineage, left.ID):
		return "", bothWentOn(a)
	}
	return s.nameOf(r, ref)
}

func bothWentOn(a Claim) error {
	return errs.Fail(errs.Conflict, "the workspace %s was changed here, and %s was changed elsewhere; nothing was changed", a.Label, a.From).
		WithHint("claim it without --from to continue here, or claim %s under another label", a.From)
}
