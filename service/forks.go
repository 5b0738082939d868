package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// forks has the operations that create and delete forks, and list them.
type forks struct {
	events         *events.Log
	programsInside func(views []uint32, rootsOnly bool) []Program // see Mount.ProgramsInside
	joinedPrograms func(fork string) int                          // see Joins.programCount
	registerActor  func(pid, uid, view uint32, name string) error // see actors.Registry.Register
	// remotes finds the snapshots on remotes with which forks begin.
	remotes interface {
		ensureLocalName(ctx context.Context, r *Request, from string) (string, error)
		ensureLocal(r *Request, ref *remote.Ref) (string, error)
		remoteRef(ctx context.Context, r *Request, from string, refresh bool) (*remote.Ref, error)
	}
}

// create creates a fork. If a.As is set, it registers that actor for all processes in the fork that the daemon cannot
// see.
func (fs *forks) create(ctx context.Context, r *Request, a snapshot.ForkOptions) (Forked, error) {
	var err error
	if a.Snapshot, err = fs.remotes.ensureLocalName(ctx, r, a.Snapshot); err != nil {
		return Forked{}, err
	}

	if a.As != "" {
		if err := actors.Check(a.As); err != nil {
			return Forked{}, err
		}
	}

	a.Caller = r.Caller
	f, err := r.Workspace.Forks().New(a)
	if err != nil {
		return Forked{}, err
	}

	if a.As != "" {
		if err := fs.registerActor(0, r.Caller.UID, f.View(), a.As); err != nil {
			return Forked{}, err
		}
	}

	return Forked{Name: a.Name, Snapshot: f.BaseSnapshotName(), Path: forkPath(r, a.Name)}, nil
}

// forkPath returns the path of a fork of the workspace. For a caller in the mount it is relative to the
// caller's workspace, because the daemon does not know at which path the caller sees that workspace.
func forkPath(r *Request, name string) string {
	path := filepath.Join(naming.ForksDir, name)
	if !r.Caller.ViaSocket {
		return path
	}

	workspace := r.mountpoint
	for _, name := range forkNames(r.Workspace) {
		workspace = filepath.Join(workspace, naming.ForksDir, name)
	}

	return filepath.Join(workspace, path)
}

func (*forks) rename(_ context.Context, r *Request, a RenameFork) (Forked, error) {
	if err := r.Workspace.Forks().Rename(a.From, a.To, r.Caller); err != nil {
		return Forked{}, err
	}
	return Forked{Name: a.To, Path: forkPath(r, a.To)}, nil
}

func (*forks) resumeRename(_ context.Context, r *Request, a RenameFork) (Forked, error) {
	return Forked{Name: a.To, Path: forkPath(r, a.To)}, nil
}

func (fs *forks) delete(_ context.Context, r *Request, a DeleteFork) (DeletedFork, error) {
	if !a.Force {
		if err := fs.checkNoPrograms(r, a); err != nil {
			return DeletedFork{}, err
		}
	}
	if a.Discard && a.Forget {
		return DeletedFork{Name: a.Name}, r.Workspace.Forks().Discard(a.Name, r.Caller)
	}

	last, until, err := r.Workspace.Forks().Remove(a.Name, a.Discard, r.Caller)
	return DeletedFork{a.Name, last.Name, until}, err
}

func (*forks) resumeDelete(_ context.Context, r *Request, a DeleteFork) (DeletedFork, error) {
	return DeletedFork{Name: a.Name, Snapshot: r.Carried.LastState.Name}, nil
}

// maxForkChanges is the largest number of changes that are counted in a fork.
const maxForkChanges = 1000

// list lists the forks. It stops counting changes after maxCountTime.
func (fs *forks) list(ctx context.Context, r *Request, _ Forks) (ForkList, error) {
	const maxCountTime = time.Second
	counting, cancel := context.WithTimeout(ctx, maxCountTime)
	defer cancel()

	out := ForkList{Forks: []ForkState{}}

	for _, i := range r.Workspace.Forks().List() {
		f := ForkState{ForkInfo: i}
		if i.Expires != nil {
			f.TTL = max(0, time.Until(*i.Expires)).Round(time.Second).String()
		}

		ws, err := r.Workspace.Forks().Named(i.Name)
		if err != nil {
			continue // the fork ended since it was listed
		}

		f.Run = fs.runState(counting, r.source, ws, i.Name)
		err = withStates(&Request{Workspace: ws}, baseStateName, "", func(base, now *tree.State) error {
			if f.Run != nil {
				return countRunChanges(counting, r.source, &f, ws, now)
			}
			return countForkChanges(counting, r.source, &f, base, now)
		})

		f.More = f.More || err != nil
		if counting.Err() == nil {
			f.Last = fs.lastActor(ws)
		}

		checked, _ := newestSnapshot(ws, func(i info.Info) bool { return i.Labels["check"] != "" })
		f.Check = checked.Labels["check"]
		out.Forks = append(out.Forks, f)
	}

	return out, ctx.Err()
}

// countForkChanges sets f.Changed to the number of files outside of git directories that differ from the fork's base.
// If only git directories differ, it sets 1. It also sets f.More and the first f.Paths.
func countForkChanges(ctx context.Context, src *tree.Source, f *ForkState, base, present *tree.State) error {
	files, more, err := diff.FirstFiles(ctx, src, base, present, diff.Options{}, maxForkChanges)
	all := len(files)
	files = slices.DeleteFunc(files, func(c diff.File) bool { _, _, git := threeway.SplitGitPath(c.Path); return git })
	f.Changed, f.More = len(files), more
	for _, changed := range files[:min(len(files), 3)] {
		f.Paths = append(f.Paths, changed.Path)
	}
	if err != nil || all == 0 || len(files) > 0 {
		return err
	}

	same, err := gitbridge.Unchanged(ctx, src, base, present, false)
	if !same {
		f.Changed = 1
	}

	return err
}

// countRunChanges counts the changes of a run that an apply would write, since the directory of the run was read.
// Paths in git directories are counted in f.Run.InGit, other files in f.Changed.
func countRunChanges(ctx context.Context, src *tree.Source, f *ForkState, ws *snapshot.Workspace, to *tree.State) error {
	from, release, err := ws.Directory().Hold(ctx)
	if err != nil {
		return err
	}
	defer release()

	git := gitbridge.NewGitDiffer(src, from, to)
	return tree.Diff(ctx, src, from, to, tree.DiffOptions{}, func(c tree.Change) error {
		switch file, inGit := hostdir.IsFileChange(c); {
		case inGit:
			differs, err := git.Differs(c)
			if err != nil {
				return err
			}
			if differs {
				f.Run.InGit++
			}

		case file:
			if f.Changed++; f.Changed <= 3 {
				f.Paths = append(f.Paths, c.Path.String())
			}
		}
		if f.Changed+f.Run.InGit >= maxForkChanges {
			return errCounted
		}
		return nil
	})
}

// errCounted ends a comparison when maxForkChanges changes have been counted.
var errCounted = errors.New("maxForkChanges changes were counted")

// runState returns the state of a run, or nil if the fork is no run. It takes the state from the newest snapshot of
// the fork with RunLabel. It ignores pulled snapshots: programs in the fork cannot take snapshots with that label,
// but can pull some. A run that changed after it was applied has the state RunKept.
func (fs *forks) runState(ctx context.Context, src *tree.Source, ws *snapshot.Workspace, name string) *Run {
	i, ok := newestSnapshot(ws, func(i info.Info) bool { return i.Labels[RunLabel] != "" && i.Kind != info.KindPull })
	if !ok {
		return nil
	}

	run := &Run{State: i.Labels[RunLabel], Command: i.Message, Used: i.Created}
	if run.State == RunApplied && changedSince(ctx, src, ws, i.Name) {
		run.State = RunKept
	}
	if run.State == RunApplied {
		_, _ = fmt.Sscanf(i.Labels[AppliedLabel], AppliedFormat, &run.Files, &run.InGit) // without the label, both numbers stay 0
	}

	switch {
	case fs.joinedPrograms(name) > 0:
		run.State, run.Files, run.InGit = RunRunning, 0, 0
	case run.State == RunRunning: // `amberfs run` was killed before it set another state
		run.State = RunKept
	}

	return run
}

// changedSince reports whether a workspace differs from a snapshot. It also returns true if the comparison
// fails.
func changedSince(ctx context.Context, src *tree.Source, ws *snapshot.Workspace, name string) (changed bool) {
	err := withStates(&Request{Workspace: ws}, name, "", func(from, to *tree.State) error {
		files, _, err := diff.FirstFiles(ctx, src, from, to, diff.Options{}, 1)
		changed = len(files) > 0
		return err
	})
	return changed || err != nil
}

// lastActor returns the actor of the newest event in a workspace, or the command of its program if the event has no
// actor. It returns "" if the events cannot be read.
func (fs *forks) lastActor(ws *snapshot.Workspace) (name string) {
	const maxEvents = 100
	view := ws.View()
	_ = fs.events.Read(view, max(fs.events.LastSeq(view), maxEvents)-maxEvents, func(e events.Event) error {
		name = cmp.Or(e.Actor, e.Command, name)
		return nil
	})

	return name
}

func (*forks) merge(ctx context.Context, r *Request, a snapshot.MergeOptions) (snapshot.PromoteResult, error) {
	if err := checkNotWorktree(r, a.Fork); err != nil {
		return snapshot.PromoteResult{}, err
	}

	a.Merge, a.Git, a.Caller, a.ListCharge = gitbridge.MergeConfigs(r.textMerger().Merge), r.merger().Repositories, r.Caller, r.listMemoryCharge()
	result, err := r.Workspace.Forks().Merge(ctx, a)
	return result, explainConflict(err, result, result.Conflicts, "changed in the fork and in the workspace; nothing was changed",
		"decide with --prefer workspace (--ours) or --prefer fork (--theirs)")
}

// checkNotWorktree returns an error for a fork that is a linked worktree of git. In such a fork .git is a file
// with the path of the workspace's repository, and a merge would replace the repository by this file.
func checkNotWorktree(r *Request, name string) error {
	fork, err := r.Workspace.Forks().Named(name)
	if err != nil {
		return err
	}

	git := func(ws *snapshot.Workspace) (*tree.Inode, error) {
		st, release, err := ws.HoldState("")
		if err != nil {
			return nil, err
		}
		defer release()

		return st.InodeAt(r.source, ".git")
	}

	ours, err := git(r.Workspace)
	if err != nil || ours == nil || !ours.IsDir() {
		return err
	}

	theirs, err := git(fork)
	if err != nil || theirs == nil || !theirs.IsRegular() {
		return err
	}

	return errs.Fail(errs.Conflict, "the fork %s is a worktree of git; nothing was changed", name).
		WithHint("commit in it, and merge its branch with git")
}

// forkNames returns the names of the forks on the path to a workspace, the outermost first. It is
// empty for main.
func forkNames(ws *snapshot.Workspace) []string {
	var out []string
	for ; ws != nil && ws.IsFork(); ws = ws.Parent() {
		out = append([]string{ws.Name()}, out...)
	}
	return out
}

// findWorkspace finds a workspace in or below ws. names has the names of the forks on the path from ws to the
// workspace, with / between them. It is "" for ws itself.
func findWorkspace(ws *snapshot.Workspace, names string) (*snapshot.Workspace, error) {
	reached := ""

	for name := range strings.SplitSeq(names, "/") {
		if name == "" {
			continue
		}
		reached = path.Join(reached, name)
		next, err := ws.Forks().Named(name)
		if err != nil {
			return nil, errs.Fail(errs.NotExist, "no such fork: %s", reached).WithHint("see `amberfs forks`")
		}
		ws = next
	}

	return ws, nil
}
