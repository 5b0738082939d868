package service

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The folders of a store that have to do with git.
const (
	gitDir = "git" // the store's own repository
	// GitCache has what is known of repositories.
	GitCache = "gitcache"
)

// export writes to the store's own repository, which never lies in a mount of this daemon. To
// other repositories the client writes, as its user.
func (s *Service) export(ctx context.Context, r *Request, a Export) (ExportDone, error) {
	ctx, stop := s.whileAlive(ctx, r.Workspace)
	defer stop()
	done, err := s.exportTo(ctx, r, a)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return done, err
}

func (s *Service) exportTo(ctx context.Context, r *Request, a Export) (ExportDone, error) {
	ref, err := refOf(r.Workspace, a)
	if err != nil {
		return ExportDone{}, err
	}
	e, err := exportable(ctx, r.Workspace, a.Name)
	if err != nil {
		return ExportDone{}, err
	}
	e.info.Actors = s.authors(e.info.Actors)
	defer e.letGo()
	release, err := r.budget(s, Gits).Take(ctx, exportMemory)
	if err != nil {
		return ExportDone{}, err
	}
	defer release()
	if err := s.exporting.Acquire(ctx, 1); err != nil {
		return ExportDone{}, err
	}
	defer s.exportEnded()
	most := int64(0)
	if r.Workspace.IsFork() {
		most = maxExport
	}
	done, err := gitbridge.Export(ctx, gitbridge.ExportOptions{
		Repo: filepath.Join(s.Store.Dir(), gitDir), Create: true, Ref: ref, CacheDir: filepath.Join(s.Store.Dir(), GitCache),
		Source: s.Store.Source(), State: e.state, Info: GitInfo(e.info, e.parents), Bases: e.gitBases(),
		Admit: r.Workspace.Quota().ChargeExport, Most: most,
	})
	if err != nil {
		return ExportDone{}, err
	}
	if r.Workspace.IsFork() && !s.alive(r.Workspace.View()) { // its refs may have been removed before
		s.pruning.Store(true)
		return ExportDone{}, errForkEnded
	}
	_, err = s.exported(ctx, r, Exported{Name: e.info.Name, Repo: filepath.Join(s.Store.Dir(), gitDir), Ref: done.Ref, Commit: done.Commit})
	return ExportDone{Name: a.Name, Commit: done.Commit, Ref: done.Ref, Skipped: len(done.Skipped)}, err
}

// forkRefs has the refs of forks, by their numbers, which are never used again.
const forkRefs = "refs/forks/"

// refOf is the ref that an export writes. A fork cannot move the refs of others.
func refOf(ws *snapshot.Workspace, a Export) (string, error) {
	if !ws.IsFork() {
		if strings.HasPrefix(a.Ref, forkRefs) {
			return "", errs.Fail(errs.Perm, "refs below %s belong to forks and are deleted with them; choose a ref other than %s", forkRefs, a.Ref)
		}
		return a.Ref, nil
	}
	own := fmt.Sprintf("%s%d/", forkRefs, ws.View())
	switch {
	case a.Ref == "":
		return own + "snapshots/" + a.Name, nil
	case !strings.HasPrefix(a.Ref, own):
		return "", errs.Fail(errs.Perm, "a fork writes refs below %s only, not %s", own, a.Ref)
	}
	return a.Ref, nil
}

const (
	// exportMemory is about what git takes for an export.
	exportMemory = 12 << 20
	// maxExport is how many bytes of files an export of a fork reads.
	maxExport = 16 << 30
	// allExports is more than the exports at a time. Freeing objects takes as many turns.
	allExports = 1 << 20
)

// merger brings git directories together, with the memory and the room that the workspace has.
func (r *Request) merger(s *Service) gitbridge.Merger {
	return gitbridge.Merger{Memory: r.budget(s, Gits), Admit: r.Workspace.Quota().Admit}
}

// texts merges files by lines, with the memory and the room that the workspace has.
func (r *Request) texts(s *Service) diff.Merger {
	return diff.Merger{Memory: r.budget(s, Gits), Admit: r.Workspace.Quota().Admit}
}

func (s *Service) exportEnded() {
	s.exporting.Release(1)
	if s.pruning.Load() && s.Dropped != nil {
		s.Dropped()
	}
}

// DropExports deletes the exports of forks that have ended, and layers that no snapshot needs.
// While an export runs, which may need the objects, it leaves them, and does not wait.
func (s *Service) DropExports(ctx context.Context) error {
	s.sweepImages()
	repo := filepath.Join(s.Store.Dir(), gitDir)
	dropped, err := gitbridge.DropRefs(ctx, repo, func(ref string) bool {
		rest, ok := strings.CutPrefix(ref, forkRefs)
		number, _, _ := strings.Cut(rest, "/")
		view, err := strconv.ParseUint(number, 10, 32)
		return ok && err == nil && !s.alive(uint32(view))
	})
	if dropped {
		s.pruning.Store(true)
	}
	if err != nil || !s.pruning.Load() || !s.exporting.TryAcquire(allExports) {
		return err
	}
	defer s.exporting.Release(allExports)
	s.pruning.Store(false)
	return gitbridge.Prune(ctx, repo)
}

var errForkEnded = errs.Fail(errs.NotExist, "the fork ended during the export")

// whileAlive returns a context that also ends when the workspace does.
func (s *Service) whileAlive(ctx context.Context, ws *snapshot.Workspace) (alive context.Context, stop func()) {
	if !ws.IsFork() {
		return ctx, func() {}
	}
	return loops.While(ctx, 100*time.Millisecond, errForkEnded, func() bool { return s.alive(ws.View()) })
}

func (s *Service) alive(view uint32) bool {
	_, alive := s.Store.Workspace(view)
	return alive
}

func GitInfo(i info.Info, parents []string) gitbridge.Info {
	return gitbridge.Info{Name: i.Name, ID: i.ID, Message: i.Message, Time: i.Created, Parents: parents, Authors: i.Actors}
}

// authors are the actors that a commit names, without those that only stand for a user: git has a
// better name for a user.
func (s *Service) authors(by []string) []string {
	return slices.DeleteFunc(slices.Clone(by), s.Store.Actors().IsUser)
}

func (s *Service) exported(_ context.Context, r *Request, a Exported) (None, error) {
	s.Log.Info("export", "snapshot", a.Name, "repository", a.Repo, "ref", a.Ref, "commit", a.Commit)
	return None{}, r.Workspace.Snapshots().Amend(a.Name, func(i *info.Info) { i.Exported(a.Commit) })
}

// maxSkipped bounds the list of entries that an archive cannot represent.
const maxSkipped = 100

func (s *Service) exportTar(ctx context.Context, r *Request, a ExportTar) (*gitbridge.TarResult, error) {
	if _, err := r.Workspace.Find(a.Name); err != nil {
		return nil, err // the present state has no name
	}
	st, release, err := r.Workspace.Held(a.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	done, err := gitbridge.WriteTar(ctx, r.Out, s.Store.Source(), st)
	if err == nil && len(done.Skipped) > maxSkipped {
		done.Skipped = done.Skipped[:maxSkipped]
	}
	return done, err
}

// open keeps the objects of a sealed snapshot, and of the bases of its export, while the answer
// is read. Git runs in the client, as its user.
func (s *Service) open(ctx context.Context, r *Request, a Open) (None, error) {
	e, err := exportable(ctx, r.Workspace, a.Name)
	if err != nil {
		return None{}, err
	}
	defer e.letGo()
	e.info.Actors = s.authors(e.info.Actors)
	out := Opened{Info: e.info, State: idOf(e.state), Parents: e.parents, Bases: []Base{}}
	for _, b := range e.bases {
		out.Bases = append(out.Bases, Base{State: idOf(b.state), Commits: b.info.GitCommits})
	}
	if err := r.Item(out); err != nil {
		return None{}, err
	}
	<-ctx.Done()
	return None{}, nil
}

// openChanges does so for two states: that of the directory from which the workspace was filled,
// and a snapshot or the present state of the workspace.
func (s *Service) openChanges(ctx context.Context, r *Request, a OpenChanges) (None, error) {
	base, letGo, err := r.Workspace.Directory().Held(ctx)
	if err != nil {
		return None{}, err
	}
	defer letGo()

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
		defer named.release()
		now = named.state
	}
	if err := r.Item(OpenedChanges{Base: idOf(base), Now: idOf(now)}); err != nil {
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

type sealed struct {
	info  info.Info
	state *tree.State // it has an id
	// release ends the hold of what the state refers to.
	release func()
}

func idOf(st *tree.State) string {
	id, _ := st.ID()
	return id.String()
}

// sealedOf finds a snapshot that has its id. What it refers to is kept until the caller releases it.
func sealedOf(ws *snapshot.Workspace, info info.Info) (s sealed, err error) {
	s.info = info
	if s.state, s.release, err = ws.Held(info.Name); err != nil {
		return s, err
	}
	if _, ok := s.state.ID(); !ok {
		s.release()
		return s, errs.Fail(errs.Failed, "snapshot %s is not stored", info.Name)
	}
	return s, nil
}

// exportSource is a snapshot with what an export of it may build upon.
type exportSource struct {
	sealed
	parents []string // commits of snapshots before, the nearest first
	bases   []sealed // exported snapshots, the nearest first
}

const (
	maxParents = 1000
	maxBases   = 16
)

func exportable(ctx context.Context, ws *snapshot.Workspace, name string) (*exportSource, error) {
	one, err := waitSealed(ctx, ws, name)
	if err != nil {
		return nil, err
	}
	e, info := &exportSource{sealed: one}, one.info
	// Nothing is closer to a snapshot than itself.
	if len(e.info.GitCommits) > 0 {
		e.bases = append(e.bases, sealed{e.info, e.state, func() {}})
	}
	for ; ws != nil; ws, info = forkPoint(ws) {
		for _, before := range ancestors(ws, info) {
			for _, c := range slices.Backward(before.GitCommits) {
				e.parents = append(e.parents, c)
			}
			if !before.Sealed || len(before.GitCommits) == 0 || len(e.bases) > maxBases {
				continue
			}
			if s, err := sealedOf(ws, before); err == nil { // else it was deleted meanwhile
				e.bases = append(e.bases, s)
			}
		}
	}
	e.parents = e.parents[:min(len(e.parents), maxParents)]
	return e, nil
}

// letGo ends the holds of all that the export reads.
func (e *exportSource) letGo() {
	e.release()
	for _, b := range e.bases {
		b.release()
	}
}

func (e *exportSource) gitBases() []gitbridge.Base {
	var out []gitbridge.Base
	for _, b := range e.bases {
		for _, commit := range b.info.GitCommits {
			out = append(out, gitbridge.Base{Commit: commit, State: func() (*tree.State, error) { return b.state, nil }})
		}
	}
	return out
}

// forkPoint is where a workspace was forked from: the snapshots before its own
// are those of its parent, up to one that is given as if it came right after.
func forkPoint(ws *snapshot.Workspace) (*snapshot.Workspace, info.Info) {
	up := ws.Parent()
	if up == nil {
		return nil, info.Info{}
	}
	base, err := ws.Find(snapshotBase)
	if err != nil {
		return nil, base
	}
	for i := range up.Snapshots().Newest() {
		if i.Name == base.Parent || base.Parent == "" && !i.Created.After(base.Created) {
			return up, info.Info{Seq: i.Seq + 1, Parent: i.Name}
		}
	}
	return up, info.Info{}
}

// ancestors lists the snapshots before one: those that it was made on top of, then all older ones.
func ancestors(ws *snapshot.Workspace, one info.Info) []info.Info {
	list := ws.List() // newest first
	byName := make(map[string]info.Info, len(list))
	for _, i := range list {
		byName[i.Name] = i
	}
	var out []info.Info
	seen := map[uint64]bool{one.Seq: true}
	add := func(i info.Info) {
		if !seen[i.Seq] && i.Seq < one.Seq {
			seen[i.Seq] = true
			out = append(out, i)
		}
	}
	for at := one; ; {
		up, ok := byName[at.Parent]
		if !ok || up.Seq >= at.Seq {
			break
		}
		add(up)
		at = up
	}
	for _, i := range list {
		add(i)
	}
	return out
}

// MaxObjects is how many objects one request can ask for.
const MaxObjects = 1024

// objects writes each object with its length in front (32 bits, little endian). The
// request was read completely before: net/http closes its body at the first flush of
// the answer.
func (s *Service) objects(_ context.Context, r *Request, a Objects) (None, error) {
	if len(a.Hashes) > MaxObjects {
		return None{}, errs.Fail(errs.Invalid, "%d objects in one request are more than the %d allowed", len(a.Hashes), MaxObjects)
	}
	out := bufio.NewWriterSize(r.Out, 256<<10)
	var object []byte
	for _, text := range a.Hashes {
		h, err := cas.ParseHash(text)
		if err != nil {
			return None{}, errs.Fail(errs.Invalid, "%w", err)
		}
		if object, err = s.Store.Object(h, object); err != nil {
			return None{}, err
		}
		out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(object))))
		if _, err := out.Write(object); err != nil {
			return None{}, err
		}
	}
	return None{}, out.Flush()
}
