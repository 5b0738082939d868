package service

import (
	"context"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// refresh merges the changes of the directory that the workspace was filled from. The client reads
// the directory with the rights of its user, and sends the entries that differ from the state
// OpenedChanges.Base.
func refresh(ctx context.Context, r *Request, a Refresh) (Refreshed, error) {
	base, releaseBase, err := r.Workspace.Directory().Held(ctx)
	if err != nil {
		return Refreshed{}, err
	}
	defer releaseBase()

	id, _ := base.ID()
	if a.Base != "" && a.Base != id.String() {
		return Refreshed{}, errs.Fail(errs.Busy, "the workspace was refreshed meanwhile").WithHint("do it again")
	}

	now, release, err := readOver(ctx, r, id)
	if err != nil {
		return Refreshed{}, err
	}
	defer release()

	if now == nil {
		return Refreshed{snapshot.MergeResult{Changes: snapshot.Changes{Paths: []graft.PathChange{}, DryRun: a.DryRun}}}, nil
	}

	done, err := r.Workspace.Directory().Refresh(ctx, now, snapshot.MergeOptions{
		Ours: a.Ours, Theirs: a.Theirs, Join: a.Merge, Resolve: a.Resolve, RefuseDiverged: a.RefuseDiverged, DryRun: a.DryRun, Merge: gitbridge.MergeConfigs(r.textMerger().Merge), Git: r.merger().Repositories, FromDirectory: r.Caller.Direct, Caller: r.Caller, List: r.list(),
	})
	done.Paths = emptyIfNil(done.Paths)
	return Refreshed{done}, explainConflict(err, Refreshed{done}, done.Conflicts, "changed in the directory and in the workspace; nothing was changed",
		"decide with --prefer workspace (--ours) or --prefer dir (--theirs)")
}

// readOver reads entries that differ from a sealed state, and returns the state with them, which is held
// until release is called. It is nil if there are no entries.
func readOver(ctx context.Context, r *Request, base cas.Hash) (st *tree.State, release func(), err error) {
	free, err := r.budget(Texts).Take(ctx, importer.Memory)
	if err != nil {
		return nil, nil, err
	}
	defer free()
	store := r.Workspace.Store()
	defer store.Importing()()

	b, err := importer.Over(ctx, store.Source(), store.CAS(), importer.At{Top: true}, base)
	if err != nil {
		return nil, nil, err
	}

	changed := false
	if err := stream.Read(ctx, r.In, func(e stream.Entry) error {
		changed = true
		if e.Path == "." {
			return b.Add(e)
		}
		return b.Layer(e)
	}, stream.Options{}); err != nil {
		return nil, nil, abandonImport(ctx, r, err)
	}
	if !changed {
		return nil, func() {}, nil
	}

	if st, err = finish(store, b); err != nil {
		return nil, nil, abandonImport(ctx, r, err)
	}

	return st, store.Hold(st), nil
}
