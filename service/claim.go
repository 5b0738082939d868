package service

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// claim returns the fork of a label, and creates it if there is none. a.From can be a snapshot on a remote that
// another machine pushed from its fork of the label. If the label was claimed in this store before, and that snapshot
// is a later state of the fork, claim first restores the snapshot in the fork.
func (fs *forks) claim(ctx context.Context, r *Request, a Claim) (Claimed, error) {
	_, err := policy.ParseTTL(a.TTL)
	if err != nil {
		return Claimed{}, err
	}

	forks := r.Workspace.Forks()
	o := snapshot.ForkOptions{Name: a.Label, TTL: a.TTL, Caller: r.Caller}
	if namesRemote(a.From) && forks.HasLabel(a.Label) {
		o.Snapshot, err = fs.catchUp(ctx, r, a)
		o.Newer = o.Snapshot != ""
	} else {
		o.Snapshot, err = fs.remotes.ensureLocalName(ctx, r, a.From)
	}
	if err != nil {
		return Claimed{}, err
	}

	got, err := forks.Claim(o)
	if err != nil {
		return Claimed{}, err
	}
	if o.Newer {
		got.Tier, got.From = snapshot.TierNewer, o.Snapshot
	}

	return Claimed{Path: forkPath(r, a.Label), Tier: got.Tier, From: got.From}, nil
}

// catchUp compares the state of the label's fork with the snapshot a.From on a remote. If that snapshot is a later
// state of the fork, catchUp restores the snapshot in the fork, and returns the snapshot's name there. If the fork
// has ended, catchUp adds the snapshot to the workspace, and returns its name there, so that a new fork can begin
// with it. It returns "" if the fork has that state or a later one. It also returns "" if the remote does not answer,
// so that sandboxes start without the remote.
func (fs *forks) catchUp(ctx context.Context, r *Request, a Claim) (string, error) {
	// The first answer may come from the cache. If the snapshot is a state of the label's fork, the cached answer may
	// be out of date, because each push of the fork replaces the snapshot.
	ref, err := fs.remotes.remoteRef(ctx, r, a.From, false)
	if err == nil && ref.Claim == a.Label {
		ref, err = fs.remotes.remoteRef(ctx, r, a.From, true)
	}
	if err != nil {
		r.log.Warn("claim: the remote cannot be asked for a later state", "label", a.Label, "from", a.From, "err", err)
		return "", nil
	}
	if ref.Claim != a.Label { // the snapshot is no state of this label's fork
		return "", nil
	}

	fork, err := r.Workspace.Forks().Named(a.Label)
	if err != nil {
		return fs.catchUpEnded(ctx, r, a, ref)
	}
	if slices.Contains(fork.Remotes().Lineage(), ref.ID) {
		return "", nil
	}

	inFork := *r
	inFork.Workspace, inFork.op = fork, nil
	defer inFork.Release()
	name := ""
	err = r.Turns.Do(ctx, func(ctx context.Context) (err error) { // a restore takes long, so it waits for its turn
		since := fork.Remotes().NewestWithID(ref.Lineage)
		if since == "" || changedSince(ctx, r.source, fork, since) {
			return errDiverged(a)
		}
		if name, err = fs.remotes.ensureLocal(&inFork, ref); err != nil {
			return err
		}

		_, err = fork.Restore(ctx, snapshot.RestoreOptions{Name: name, Caller: r.Caller, ListCharge: inFork.listMemoryCharge()})
		return err
	})

	return name, err
}

// catchUpEnded does the work of catchUp for a label whose fork has ended. It compares the snapshot on the remote with
// the snapshot that the fork left of its last state. If the fork left none, it returns "".
func (fs *forks) catchUpEnded(ctx context.Context, r *Request, a Claim, ref *remote.Ref) (string, error) {
	lastState, ok := r.Workspace.Forks().LastState(a.Label)
	if !ok {
		return "", nil
	}

	lastState, err := r.Workspace.Snapshots().WaitSealed(ctx, lastState.Name)
	switch {
	case err != nil:
		return "", err
	case lastState.ID == ref.ID || slices.Contains(lastState.Lineage, ref.ID):
		return "", nil
	case !slices.Contains(ref.Lineage, lastState.ID):
		return "", errDiverged(a)
	}

	return fs.remotes.ensureLocal(r, ref)
}

// errDiverged is the error for a label that changed here and on the remote.
func errDiverged(a Claim) error {
	return errs.Fail(errs.Conflict, "the workspace %s was changed here, and %s was changed elsewhere; nothing was changed", a.Label, a.From).
		WithHint("claim it without --from to continue here, or claim %s under another label", a.From)
}
