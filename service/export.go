package service

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The folders of a store that have to do with git.
const (
	gitDir = "git" // the store's own repository
	// GitCache has what is known of repositories.
	GitCache = "gitcache"
)

// export writes to the store's own repository, which no mount of this daemon has
// in it. Other repositories are the client's to write to, as its user.
func (s *Service) export(ctx context.Context, r *Request, a Export) (ExportDone, error) {
	ref, err := refOf(r.Workspace, a)
	if err != nil {
		return ExportDone{}, err
	}
	e, err := exportable(ctx, r.Workspace, a.Name)
	if err != nil {
		return ExportDone{}, err
	}
	defer e.hold(s.Store)()
	s.exporting.RLock()
	defer s.exporting.RUnlock()
	done, err := gitbridge.Export(ctx, gitbridge.ExportOptions{
		Repo: filepath.Join(s.Store.Dir(), gitDir), Create: true, Ref: ref, CacheDir: filepath.Join(s.Store.Dir(), GitCache),
		Source: s.Store.Source(), State: e.state, Info: GitInfo(e.info, e.parents), Bases: e.gitBases(),
		Admit: r.Workspace.ChargeExport,
	})
	if err != nil {
		return ExportDone{}, err
	}
	_, err = s.exported(ctx, r, Exported{Name: e.info.Name, Repo: filepath.Join(s.Store.Dir(), gitDir), Ref: done.Ref, Commit: done.Commit})
	return ExportDone{Name: a.Name, Commit: done.Commit, Ref: done.Ref, Skipped: len(done.Skipped)}, err
}

// forkRefs has the refs of forks, each below its fork's number. A number is never used
// again, a name is.
const forkRefs = "refs/forks/"

// refOf is the ref that an export writes. A fork has refs of its own: it must not
// move those of others.
func refOf(ws *snapshot.Workspace, a Export) (string, error) {
	if !ws.IsFork() {
		if strings.HasPrefix(a.Ref, forkRefs) {
			return "", fail.New(fail.Denied, "the refs below %s are those of forks, and are deleted with them; take another than %s", forkRefs, a.Ref)
		}
		return a.Ref, nil
	}
	own := fmt.Sprintf("%s%d/", forkRefs, ws.View())
	switch {
	case a.Ref == "":
		return own + "snapshots/" + a.Name, nil
	case !strings.HasPrefix(a.Ref, own):
		return "", fail.New(fail.Denied, "a fork writes refs below %s only, not %s", own, a.Ref)
	}
	return a.Ref, nil
}

// DropExports deletes what forks that have ended exported.
func (s *Service) DropExports(ctx context.Context) error {
	s.exporting.Lock()
	defer s.exporting.Unlock()
	return gitbridge.DropRefs(ctx, filepath.Join(s.Store.Dir(), gitDir), func(ref string) bool {
		rest, ok := strings.CutPrefix(ref, forkRefs)
		number, _, _ := strings.Cut(rest, "/")
		view, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			return false
		}
		_, alive := s.Store.Workspace(uint32(view))
		return !alive
	})
}

// GitInfo is what a commit says of a snapshot.
func GitInfo(i snapshot.Info, parents []string) gitbridge.Info {
	return gitbridge.Info{Name: i.Name, ID: i.ID, Message: i.Message, Time: i.Created, Parents: parents}
}

// exported writes down what a snapshot was exported as.
func (s *Service) exported(_ context.Context, r *Request, a Exported) (None, error) {
	s.Log.Info("export", "snapshot", a.Name, "repository", a.Repo, "ref", a.Ref, "commit", a.Commit)
	return None{}, r.Workspace.Snapshots().Amend(a.Name, func(i *snapshot.Info) { i.Exported(a.Commit) })
}

// maxSkipped bounds the list of what an archive has no place for.
const maxSkipped = 100

func (s *Service) exportTar(ctx context.Context, r *Request, a ExportTar) (*gitbridge.TarResult, error) {
	st, err := r.Workspace.StateOf(a.Name)
	if err != nil {
		return nil, err
	}
	defer s.Store.Hold(st)()
	done, err := gitbridge.WriteTar(ctx, r.Out, s.Store.Source(), st, gitbridge.TarOptions{})
	if err == nil && len(done.Skipped) > maxSkipped {
		done.Skipped = done.Skipped[:maxSkipped]
	}
	return done, err
}

// open seals a snapshot and keeps its objects, and those of what an export of it
// may build upon, until nobody reads the answer any more. Git is the client's: it
// runs as its user, in its environment, and the repository may lie in this very
// mount.
func (s *Service) open(ctx context.Context, r *Request, a Open) (None, error) {
	e, err := exportable(ctx, r.Workspace, a.Name)
	if err != nil {
		return None{}, err
	}
	defer e.hold(s.Store)()
	out := Opened{Info: e.info, State: e.id, Parents: e.parents, Bases: []Base{}}
	for _, b := range e.bases {
		out.Bases = append(out.Bases, Base{State: b.id, Commits: b.info.GitCommits})
	}
	if err := r.Item(out); err != nil {
		return None{}, err
	}
	<-ctx.Done()
	return None{}, nil
}

// openChanges does so for what main began from, and for a snapshot or the present
// state of the workspace, which may be a fork.
func (s *Service) openChanges(ctx context.Context, r *Request, a OpenChanges) (None, error) {
	first := r.Workspace
	for first.Parent() != nil {
		first = first.Parent()
	}
	base, err := waitSealed(ctx, first, snapshotBase)
	if err != nil {
		return None{}, err
	}
	defer s.Store.Hold(base.state)()
	var now *tree.State
	if a.Name == "" {
		st, release, err := r.Workspace.SealPresent(ctx)
		if err != nil {
			return None{}, err
		}
		defer release()
		now = st
	} else {
		named, err := waitSealed(ctx, r.Workspace, a.Name)
		if err != nil {
			return None{}, err
		}
		defer s.Store.Hold(named.state)()
		now = named.state
	}
	id, _ := now.ID()
	if err := r.Item(OpenedChanges{Base: base.id, Now: id.String()}); err != nil {
		return None{}, err
	}
	<-ctx.Done()
	return None{}, nil
}

func waitSealed(ctx context.Context, ws *snapshot.Workspace, name string) (sealed, error) {
	info, err := ws.Snapshots().WaitSealed(ctx, name)
	if err != nil {
		return sealed{}, err
	}
	return sealedOf(ws, info)
}

// sealed is a snapshot that is sealed.
type sealed struct {
	info  snapshot.Info
	state *tree.State
	id    string
}

func sealedOf(ws *snapshot.Workspace, info snapshot.Info) (s sealed, err error) {
	s.info = info
	if s.state, err = ws.StateOf(info.Name); err != nil {
		return s, err
	}
	id, ok := s.state.ID()
	if !ok {
		return s, fail.New(fail.Failed, "snapshot %s is not sealed", info.Name)
	}
	s.id = id.String()
	return s, nil
}
