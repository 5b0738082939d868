package service

import (
	"context"
	"errors"
	"sync"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/stream"
)

// refresh merges the changes of the directory that the workspace was filled from. The client reads
// the directory with the rights of its user, and sends the entries that differ from the state
// OpenedChanges.Base.
func (s *Service) refresh(ctx context.Context, r *Request, a Refresh) (Refreshed, error) {
	base, releaseBase, err := r.Workspace.Directory().Held(ctx)
	if err != nil {
		return Refreshed{}, err
	}
	defer releaseBase()

	release, err := r.budget(s, Texts).Take(ctx, importer.Memory)
	if err != nil {
		return Refreshed{}, err
	}
	defer release()

	finished := sync.OnceFunc(s.Store.Importing())
	defer finished()

	id, _ := base.ID()
	if a.Base != "" && a.Base != id.String() {
		return Refreshed{}, errs.Fail(errs.Busy, "the workspace was refreshed meanwhile").WithHint("do it again")
	}

	b, err := importer.Over(ctx, s.Store.Source(), s.Store.CAS(), importer.At{Top: true}, id)
	if err != nil {
		return Refreshed{}, err
	}

	changed := false
	if err := stream.Read(ctx, r.In, func(e stream.Entry) error {
		changed = true
		if e.Path == "." {
			return b.Add(e)
		}
		return b.Layer(e)
	}, stream.Options{}); err != nil {
		return Refreshed{}, s.abandonImport(ctx, err)
	}
	if !changed {
		return Refreshed{snapshot.MergeResult{Changes: snapshot.Changes{Paths: []graft.PathChange{}, DryRun: a.DryRun}}}, nil
	}

	now, err := b.Finish()
	if err != nil {
		return Refreshed{}, s.abandonImport(ctx, err)
	}
	if err := s.Store.CAS().Commit(); err != nil {
		return Refreshed{}, s.abandonImport(ctx, err)
	}
	defer s.Store.Hold(now)()

	finished()
	done, err := r.Workspace.Directory().Refresh(ctx, now, snapshot.MergeOptions{
		Ours: a.Ours, Theirs: a.Theirs, Join: a.Merge, Resolve: a.Resolve, RefuseDiverged: a.RefuseDiverged, DryRun: a.DryRun, Merge: gitbridge.MergeConfigs(r.textMerger(s).Merge), Git: r.merger(s).Repositories, FromDirectory: r.Caller.Direct, Caller: r.Caller, List: r.list(s),
	})
	done.Paths = emptyIfNil(done.Paths)
	if errors.Is(err, threeway.ErrConflict) {
		e := errs.Fail(errs.Conflict, "%s changed in the directory and in the workspace; nothing was changed", plural(len(done.Conflicts), "path", "paths")).
			WithHint("%s", threeway.DecideHint("decide with --prefer workspace (--ours) or --prefer dir (--theirs)", done.Conflicts))
		e.Result = Refreshed{done}
		return Refreshed{done}, e
	}

	return Refreshed{done}, staleDecision(err)
}
