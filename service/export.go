package service

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/archive"
	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The folders of a store for git.
const (
	gitDir = "git" // the store's own git repository
	// GitCache is the folder with the cache of gitbridge.Export.
	GitCache = "gitcache"
)

// Exports has the operations that read snapshots out of the store: as commits in the store's own git repository, as
// archives, or as objects for a client that runs git itself. It also deletes the commits.
type Exports struct {
	store       exportStore
	dir         string                  // the folder of the store
	repository  string                  // the store's own git repository
	isUserName  func(actor string) bool // see actors.Registry.IsUserName
	requestDrop func()                  // see Config.RequestDrop
	sweepImages func()
	// runningExports has the weight allExports. An export acquires 1, and the deletion of objects in the
	// repository acquires all. needsPrune is set while there are objects to delete.
	runningExports *semaphore.Weighted
	needsPrune     atomic.Bool
}

// An exportStore has the objects of a store, and the workspaces that have not ended.
type exportStore interface {
	Workspace(view uint32) (*snapshot.Workspace, bool)
	Object(h cas.Hash, dst []byte) ([]byte, error)
	Hold(st *tree.State) (release func())
}

// export writes a snapshot to the store's own git repository, which is never in a mount of this daemon. The
// client writes to other repositories, with the rights of its user.
func (es *Exports) export(ctx context.Context, r *Request, a Export) (_ ExportDone, err error) {
	maxBytes := int64(0)
	if r.Workspace.IsFork() {
		maxBytes = maxExportBytes
		var stop func()
		ctx, stop = loops.WhileNeeded(ctx, 100*time.Millisecond, errForkEnded, func() bool { return es.isAlive(r.Workspace.View()) })
		defer stop()
	}
	defer func() {
		if err != nil && ctx.Err() != nil { // any error may follow from the end of the fork
			err = context.Cause(ctx)
		}
	}()

	ref, err := exportRef(r.Workspace, a)
	if err != nil {
		return ExportDone{}, err
	}

	e, err := es.newExportSource(ctx, r.Workspace, a.Name)
	if err != nil {
		return ExportDone{}, err
	}
	defer e.releaseAll()

	release, err := r.budget(GitMemory).Take(ctx, exportMemoryBytes)
	if err != nil {
		return ExportDone{}, err
	}
	defer release()

	if err := es.runningExports.Acquire(ctx, 1); err != nil {
		return ExportDone{}, err
	}
	defer es.endExport()

	result, err := gitbridge.Export(ctx, gitbridge.ExportOptions{
		Repo: es.repository, Create: true, Ref: ref, CacheDir: filepath.Join(es.dir, GitCache),
		Source: r.source, State: e.state, Info: GitInfo(e.info, e.parents), Bases: e.gitBases(),
		Admit: r.Workspace.Quota().ChargeExport, MaxBytes: maxBytes,
	})
	if err != nil {
		return ExportDone{}, err
	}

	if r.Workspace.IsFork() && !es.isAlive(r.Workspace.View()) { // Drop may have missed the new ref, so it must run again
		es.needsPrune.Store(true)
		return ExportDone{}, errForkEnded
	}

	_, err = es.record(ctx, r, Exported{Name: e.info.Name, Repo: es.repository, Ref: result.Ref, Commit: result.Commit})
	return ExportDone{Name: a.Name, Commit: result.Commit, Ref: result.Ref, Skipped: len(result.Skipped)}, err
}

// forkRefPrefix is the prefix of the refs of forks. The number of a fork follows; no two forks ever have
// the same number.
const forkRefPrefix = "refs/forks/"

// exportRef returns the ref that an export writes. A fork writes refs below its own prefix only.
func exportRef(ws *snapshot.Workspace, a Export) (string, error) {
	if !ws.IsFork() {
		if strings.HasPrefix(a.Ref, forkRefPrefix) {
			return "", errs.Fail(errs.Perm, "refs below %s belong to forks and are deleted with them; choose a ref other than %s", forkRefPrefix, a.Ref)
		}
		return a.Ref, nil
	}

	own := fmt.Sprintf("%s%d/", forkRefPrefix, ws.View())
	switch {
	case a.Ref == "":
		return own + "snapshots/" + a.Name, nil
	case !strings.HasPrefix(a.Ref, own):
		return "", errs.Fail(errs.Perm, "a fork writes refs below %s only, not %s", own, a.Ref)
	}

	return a.Ref, nil
}

const (
	// exportMemoryBytes is the approximate amount of memory that git needs for an export.
	exportMemoryBytes = 12 << 20
	// maxExportBytes is the largest number of bytes of files that an export of a fork reads.
	maxExportBytes = 16 << 30
	// allExports is the weight of the semaphore Exports.runningExports: an export acquires 1, pruning acquires
	// all.
	allExports = 1 << 20
)

// merger merges git directories, within the memory and the quota of the workspace.
func (r *Request) merger() gitbridge.Merger {
	return gitbridge.Merger{Memory: r.budget(GitMemory), Admit: r.Workspace.Quota().Admit}
}

// textMerger merges files by lines, within the memory and the quota of the workspace.
func (r *Request) textMerger() diff.Merger {
	return diff.Merger{Memory: r.budget(GitMemory), Admit: r.Workspace.Quota().Admit}
}

// endExport releases the semaphore runningExports for an export. If Drop has left objects to delete, it calls
// Config.RequestDrop, so that the daemon calls Drop again.
func (es *Exports) endExport() {
	es.runningExports.Release(1)
	if es.needsPrune.Load() {
		es.requestDrop()
	}
}

// Drop deletes the exports of forks that have ended, and image layers that no snapshot needs. A running
// export may need the objects of deleted refs. So while one runs, Drop returns without deleting objects, and
// Config.RequestDrop is called at the end of the export.
func (es *Exports) Drop(ctx context.Context) error {
	es.sweepImages()
	dropped, err := gitbridge.DropRefs(ctx, es.repository, func(ref string) bool {
		rest, ok := strings.CutPrefix(ref, forkRefPrefix)
		number, _, _ := strings.Cut(rest, "/")
		view, err := strconv.ParseUint(number, 10, 32)
		return ok && err == nil && !es.isAlive(uint32(view))
	})
	if dropped {
		es.needsPrune.Store(true)
	}
	if err != nil || !es.needsPrune.Load() || !es.runningExports.TryAcquire(allExports) {
		return err
	}
	defer es.runningExports.Release(allExports)

	es.needsPrune.Store(false)

	return gitbridge.Prune(ctx, es.repository)
}

// withoutExports waits until no export runs, and then calls fn. No export begins before fn returns.
func (es *Exports) withoutExports(ctx context.Context, fn func() error) error {
	if err := es.runningExports.Acquire(ctx, allExports); err != nil {
		return err
	}
	defer es.runningExports.Release(allExports)

	return fn()
}

var errForkEnded = errs.Fail(errs.NotExist, "the fork ended during the export")

// isAlive reports whether the workspace with the given view has not ended.
func (es *Exports) isAlive(view uint32) bool {
	_, alive := es.store.Workspace(view)
	return alive
}

// GitInfo describes a snapshot for its commit. parents are the commits of earlier snapshots, the nearest first.
func GitInfo(i info.Info, parents []string) gitbridge.Info {
	return gitbridge.Info{Name: i.Name, ID: i.ID, Message: i.Message, Time: i.Created, Parents: parents, Authors: i.Actors}
}

func (*Exports) record(_ context.Context, r *Request, a Exported) (None, error) {
	r.log.Info("export", "snapshot", a.Name, "repository", a.Repo, "ref", a.Ref, "commit", a.Commit)
	return None{}, r.Workspace.Snapshots().Amend(a.Name, func(i *info.Info) { i.AddExport(a.Commit) })
}

// maxSkipped is the largest number of listed entries that an archive cannot represent.
const maxSkipped = 100

func (*Exports) writeTar(ctx context.Context, r *Request, a ExportTar) (*archive.TarResult, error) {
	// Find refuses an empty name. HoldToSend would return the present state for it.
	if _, err := r.Workspace.Find(a.Name); err != nil {
		return nil, err
	}

	st, release, err := r.Workspace.Remotes().HoldToSend(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	defer release()

	result, err := archive.WriteTar(ctx, r.Out, r.source, st)
	if err != nil {
		return result, err
	}

	result.Skipped = result.Skipped[:min(len(result.Skipped), maxSkipped)]
	return result, nil
}

// An exportSource is a snapshot with the earlier commits and exported snapshots from which its export begins.
type exportSource struct {
	storedSnapshot
	parents []string         // commits of earlier snapshots, the nearest first
	bases   []storedSnapshot // snapshots that were exported, the nearest first
}

const (
	maxParents = 1000
	maxBases   = 16
)

// newExportSource waits until a snapshot has its id, and returns what its export needs. The caller calls releaseAll.
func (es *Exports) newExportSource(ctx context.Context, ws *snapshot.Workspace, name string) (*exportSource, error) {
	held, err := holdStored(ctx, ws, name, func(name string) (*tree.State, func(), error) { return ws.Remotes().HoldToSend(ctx, name) })
	if err != nil {
		return nil, err
	}
	e := &exportSource{storedSnapshot: held}
	// The commit names no users: git itself adds the user's name, from its configuration.
	e.info.Actors = slices.DeleteFunc(slices.Clone(e.info.Actors), es.isUserName)

	// If the policy leaves out files now, earlier exports may contain these files, so they cannot be bases.
	sendsAll := ws.Remotes().SendsAll()

	// If this snapshot was exported before, it is the best base.
	if sendsAll && len(e.info.GitCommits) > 0 {
		e.bases = append(e.bases, storedSnapshot{e.info, e.state, func() {}})
	}

	// The ancestors of the snapshot follow: first the snapshots in its workspace, then the snapshots in the
	// workspaces above.
	for start := held.info; ws != nil; ws, start = forkPoint(ws) {
		for _, before := range ancestors(ws, start) {
			for _, c := range slices.Backward(before.GitCommits) {
				e.parents = append(e.parents, c)
			}
			if !sendsAll || !before.Sealed || len(before.GitCommits) == 0 || len(e.bases) > maxBases {
				continue
			}

			s, err := holdStored(ctx, ws, before.Name, ws.HoldState)
			if err != nil {
				continue // the snapshot was deleted since it was listed
			}
			e.bases = append(e.bases, s)
		}
	}

	e.parents = e.parents[:min(len(e.parents), maxParents)]
	return e, nil
}

// releaseAll releases the snapshot and its bases.
func (e *exportSource) releaseAll() {
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

// forkPoint returns the parent of a workspace, nil for main. It also returns an invented snapshot that directly
// follows the fork point in the parent. So the ancestors of this snapshot are the ancestors of the workspace.
func forkPoint(ws *snapshot.Workspace) (*snapshot.Workspace, info.Info) {
	up := ws.Parent()
	if up == nil {
		return nil, info.Info{}
	}

	base, err := ws.Find(baseStateName)
	if err != nil {
		return nil, base
	}

	for i := range up.Snapshots().NewestFirst() {
		if i.Name == base.Parent || base.Parent == "" && !i.Created.After(base.Created) {
			return up, info.Info{Seq: i.Seq + 1, Parent: i.Name}
		}
	}

	return up, info.Info{}
}

// ancestors lists the snapshots before the snapshot start: first the chain of its parents, the nearest first,
// then all other older snapshots, the newest first.
func ancestors(ws *snapshot.Workspace, start info.Info) []info.Info {
	list := ws.List() // newest first
	byName := make(map[string]info.Info, len(list))
	for _, i := range list {
		byName[i.Name] = i
	}

	var out []info.Info
	seen := map[uint64]bool{start.Seq: true}
	add := func(i info.Info) {
		if !seen[i.Seq] && i.Seq < start.Seq {
			seen[i.Seq] = true
			out = append(out, i)
		}
	}
	for current := start; ; {
		parent, ok := byName[current.Parent]
		if !ok || parent.Seq >= current.Seq {
			break
		}

		add(parent)
		current = parent
	}

	for _, i := range list {
		add(i)
	}

	return out
}
