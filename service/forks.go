package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

func (s *Service) fork(ctx context.Context, r *Request, a snapshot.ForkOptions) (Forked, error) {
	var err error
	if a.Snapshot, err = s.localName(ctx, r, a.Snapshot); err != nil {
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
		if err := s.Store.Actors().Register(0, r.Caller.UID, f.View(), a.As); err != nil {
			return Forked{}, err
		}
	}
	return Forked{Name: a.Name, Snapshot: f.BeganFrom(), Path: s.forkPath(r, a.Name)}, nil
}

// forkPath is where a fork of the workspace is. A caller in the mount sees it
// below its own workspace, wherever that is mounted.
func (s *Service) forkPath(r *Request, name string) string {
	path := filepath.Join(naming.ForksDir, name)
	if !r.Caller.Direct {
		return path
	}
	return filepath.Join(s.Mountpoint, Below(r.Workspace), path)
}

// Below is the path of a workspace below the mount point.
func Below(ws *snapshot.Workspace) string {
	p := "."
	for _, name := range forkNames(ws) {
		p = filepath.Join(p, naming.ForksDir, name)
	}
	return p
}

func (s *Service) renameFork(_ context.Context, r *Request, a RenameFork) (Forked, error) {
	if err := r.Workspace.Forks().Rename(a.From, a.To, r.Caller); err != nil {
		return Forked{}, err
	}
	return Forked{Name: a.To, Path: s.forkPath(r, a.To)}, nil
}

func (s *Service) deleteFork(_ context.Context, r *Request, a DeleteFork) (DeletedFork, error) {
	if !a.Force {
		if err := s.checkInside(r, a); err != nil {
			return DeletedFork{}, err
		}
	}
	if a.Discard {
		return DeletedFork{Name: a.Name}, r.Workspace.Forks().Discard(a.Name, r.Caller)
	}
	last, err := r.Workspace.Forks().End(a.Name, r.Caller)
	return DeletedFork{Name: a.Name, Snapshot: last.Name}, err
}

// forks lists the forks. All comparisons together take at most countTime.
func (s *Service) forks(ctx context.Context, r *Request, _ Forks) (ForkList, error) {
	const maxCounted, countTime = 1000, time.Second
	counting, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	out := ForkList{Forks: []ForkState{}}
	for _, i := range r.Workspace.Forks().List() {
		f := ForkState{ForkInfo: i}
		if i.Expires != nil {
			f.TTL = max(0, time.Until(*i.Expires)).Round(time.Second).String()
		}
		ws, err := r.Workspace.Forks().Named(i.Name)
		if err != nil {
			continue // it ended meanwhile
		}
		f.Run = s.runOf(counting, ws, i.Name)
		err = s.compare(&Request{Workspace: ws}, snapshotBase, "", func(from, to *tree.State) (err error) {
			if f.Run != nil {
				base, release, err := ws.Directory().Held(counting)
				if err != nil {
					return err
				}
				defer release()
				from = base
			}
			if f.Run != nil {
				return s.countRun(counting, &f, from, to, maxCounted)
			}
			files, more, err := diff.First(counting, s.Store.Source(), from, to, diff.Options{}, maxCounted)
			all := len(files)
			files = slices.DeleteFunc(files, func(c diff.File) bool { _, _, git := threeway.InGit(c.Path); return git })
			if f.Changed, f.More = len(files), more; all > 0 && len(files) == 0 && err == nil {
				var same bool
				if same, err = gitbridge.Unchanged(counting, s.Store.Source(), from, to, false); !same {
					f.Changed = 1 // what git did
				}
			}
			for _, changed := range files[:min(len(files), 3)] {
				f.Paths = append(f.Paths, changed.Path)
			}
			return err
		})
		f.More = f.More || err != nil
		if counting.Err() == nil {
			f.Last = s.lastActor(ws)
		}
		for i := range ws.Snapshots().Newest() {
			if f.Check = i.Labels["check"]; f.Check != "" {
				break
			}
		}
		out.Forks = append(out.Forks, f)
	}
	return out, ctx.Err()
}

// countRun counts the changes of a run as an apply does: files, and what is in git directories for
// itself.
func (s *Service) countRun(ctx context.Context, f *ForkState, from, to *tree.State, most int) error {
	git := gitbridge.NewGitDiffer(s.Store.Source(), from, to)
	return tree.Diff(ctx, s.Store.Source(), from, to, tree.DiffOptions{}, func(c tree.Change) error {
		switch file, inGit := gitbridge.ChangedFile(c); {
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
		if f.Changed+f.Run.InGit >= most {
			return errCounted
		}
		return nil
	})
}

// errCounted ends a comparison that has counted enough.
var errCounted = errors.New("enough was counted")

// runOf returns what the snapshots of a fork say of a run, nil if it is none. Programs in the fork
// take no snapshots with that label, but they may pull some. A run that changed after it was
// applied is kept.
func (s *Service) runOf(ctx context.Context, ws *snapshot.Workspace, name string) *Run {
	var run *Run
	for i := range ws.Snapshots().Newest() {
		if state := i.Labels[RunLabel]; state != "" && i.Kind != info.KindPull {
			run = &Run{State: state, Command: i.Message, Used: i.Created}
			if state == RunApplied && s.changedSince(ctx, ws, i.Name) {
				run.State = RunKept
			}
			break
		}
	}
	switch {
	case run == nil:
	case s.use(name, 0) > 0:
		run.State = RunRunning
	case run.State == RunRunning: // it was killed
		run.State = RunKept
	}
	return run
}

// changedSince reports whether a workspace may differ from a snapshot.
func (s *Service) changedSince(ctx context.Context, ws *snapshot.Workspace, name string) (changed bool) {
	err := s.compare(&Request{Workspace: ws}, name, "", func(from, to *tree.State) error {
		files, _, err := diff.First(ctx, s.Store.Source(), from, to, diff.Options{}, 1)
		changed = len(files) > 0
		return err
	})
	return changed || err != nil
}

// lastActor is the actor of the newest event in a workspace, or its program.
func (s *Service) lastActor(ws *snapshot.Workspace) (name string) {
	const newest = 100
	view := ws.View()
	_ = s.Events.Read(view, max(s.Events.LastSeq(view), newest)-newest, func(e events.Event) error {
		name = cmp.Or(e.Actor, e.Command, name)
		return nil
	}) // else it is not known
	return name
}

func (s *Service) merge(ctx context.Context, r *Request, a snapshot.MergeOptions) (snapshot.PromoteResult, error) {
	if err := s.notWorktree(r.Workspace, a.Fork); err != nil {
		return snapshot.PromoteResult{}, err
	}
	a.Merge, a.Git, a.Caller, a.List = r.texts(s).Merge, r.merger(s).Repositories, r.Caller, r.list(s)
	done, err := r.Workspace.Forks().Merge(ctx, a)
	done.Paths = listed(done.Paths)
	if errors.Is(err, threeway.ErrConflict) {
		e := errs.Fail(errs.Conflict, "%s changed in the fork and in the workspace; nothing was changed", plural(len(done.Conflicts), "path", "paths")).
			WithHint("%s", threeway.DecideHint("decide with --prefer workspace (--ours) or --prefer fork (--theirs)", done.Conflicts))
		e.Result = done
		return done, e
	}
	return done, meanwhile(err)
}

// notWorktree refuses a fork that is a worktree of git. Its .git is a file with the path of the
// workspace's repository, and a merge would replace that repository by the file.
func (s *Service) notWorktree(ws *snapshot.Workspace, name string) error {
	fork, err := ws.Forks().Named(name)
	if err != nil {
		return err
	}
	git := func(ws *snapshot.Workspace) (*tree.Inode, error) {
		st, release, err := ws.Held("")
		if err != nil {
			return nil, err
		}
		defer release()
		return st.At(s.Store.Source(), ".git")
	}
	ours, err := git(ws)
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

// meanwhile makes a conflict of the error of a decision about other sides.
func meanwhile(err error) error {
	if errors.Is(err, threeway.ErrMeanwhile) {
		return errs.Fail(errs.Conflict, "%w", err).WithHint("look at it again")
	}
	return err
}

// conflict compares the present states, so a merge or an undo checks Of.
func (s *Service) conflict(ctx context.Context, r *Request, a Conflict) (out Conflicting, err error) {
	now, release, err := r.Workspace.Held("")
	if err != nil {
		return out, err
	}
	defer release()
	ours, err := now.At(s.Store.Source(), string(a.Path))
	if err != nil {
		return out, err
	}
	if a.By != "" {
		o, err := s.toUndo(ctx, r, snapshot.UndoByOptions{By: a.By, Since: a.Since, Paths: []naming.BytePath{a.Path}})
		if err != nil {
			return out, err
		}
		err = r.Workspace.Snapshots().SidesBy(ctx, o, func(left, without *tree.Inode) error {
			out, err = s.conflicting(ctx, r, left, ours, without, ours)
			return err
		})
		if errors.Is(err, threeway.ErrConflict) {
			out, err = Conflicting{Binary: true, Parts: []diff.Part{}}, nil
		}
		return out, err
	}
	f, err := r.Workspace.Forks().Named(a.Fork)
	if err != nil {
		return out, err
	}
	err = s.compare(&Request{Workspace: f}, snapshotBase, "", func(from, to *tree.State) error {
		base, err := from.At(s.Store.Source(), string(a.Path))
		if err != nil {
			return err
		}
		theirs, err := to.At(s.Store.Source(), string(a.Path))
		if err == nil && base == nil && ours == nil && theirs == nil {
			err = nowhere(string(a.Path))
		}
		if err == nil {
			out, err = s.conflicting(ctx, r, base, ours, theirs, base, ours, theirs)
		}
		return err
	})
	return out, err
}

// conflicting compares the sides of a file. The digest is that of the files in of.
func (s *Service) conflicting(ctx context.Context, r *Request, base, ours, theirs *tree.Inode, of ...*tree.Inode) (out Conflicting, err error) {
	const maxSide = 1 << 20
	out.Parts = []diff.Part{}
	var texts [3][]byte
	sizes := [3]*int64{&out.BaseSize, &out.OursSize, &out.TheirsSize}
	for i, n := range [3]*tree.Inode{base, ours, theirs} {
		if *sizes[i] = -1; n == nil {
			out.Binary = true
			continue
		}
		if *sizes[i] = n.Size(); !n.IsRegular() || n.Size() > maxSide {
			out.Binary = true
		} else if texts[i], err = io.ReadAll(n.Content.Reader(s.Store.Source().Files)); err != nil {
			return out, err
		}
		out.Binary = out.Binary || !utf8.Valid(texts[i]) || bytes.IndexByte(texts[i], 0) >= 0
	}
	if !out.Binary {
		release, terr := diff.TakeMerge(ctx, r.budget(s, Texts), texts[:]...)
		if errs.Of(terr) == errs.TooBig {
			out.Binary = true
			return out, nil
		}
		if terr != nil {
			return out, terr
		}
		defer release()
		if out.Of, err = threeway.Digest(s.Store.Source(), of...); err == nil {
			out.Parts, err = diff.Merge(ctx, texts[0], texts[1], texts[2])
		}
	}
	return out, err
}

const (
	maxFreeze   = 10 * time.Minute
	usualFreeze = "30s"
)

func (s *Service) freeze(_ context.Context, r *Request, a Freeze) (Frozen, error) {
	d, err := policy.ParseSpan(cmp.Or(a.For, usualFreeze))
	if err != nil || d <= 0 || d > maxFreeze {
		return Frozen{}, errs.Fail(errs.Invalid, "a freeze takes a time such as 30s, of at most %s, not %q", maxFreeze, a.For)
	}
	until := time.Now().Add(d)
	s.freezes.Lock()
	defer s.freezes.Unlock()
	if !s.Store.Forest().Freeze(d) {
		return Frozen{}, errs.Fail(errs.Busy, "the store is frozen already").WithHint("end the freeze with `amberfs thaw`")
	}
	s.tellFrozen(until)
	s.Log.Info("freeze", "for", d, "uid", r.Caller.UID, "pid", r.Caller.PID)
	return Frozen{Until: until}, nil
}

// tellFrozen tells who outlives this daemon when the freeze is to end. What ended the one before is known
// then. The lock is held.
func (s *Service) tellFrozen(until time.Time) {
	s.Freezing.Ended = time.Time{}
	if s.Freezing.Tell != nil {
		s.Freezing.Tell(until)
	}
}

func (s *Service) thaw(_ context.Context, r *Request, _ Thaw) (Thawed, error) {
	s.freezes.Lock()
	defer s.freezes.Unlock()
	ended := s.Freezing.Ended
	thawed := s.Store.Forest().Thaw()
	s.tellFrozen(time.Time{})
	s.Log.Info("thaw", "uid", r.Caller.UID, "pid", r.Caller.PID)
	if !thawed && !ended.IsZero() {
		return Thawed{}, errs.Fail(errs.Failed, "the freeze ended at %s, with the daemon that held it (%s)", ended.Format(time.RFC3339), s.Freezing.Reason).
			WithHint("programs may have written since: what was copied may not fit together, so freeze and copy again")
	}
	return Thawed{Thawed: thawed}, nil
}

// forkNames are the names of the forks that lead to a workspace, none for main.
func forkNames(ws *snapshot.Workspace) []string {
	var out []string
	for ; ws != nil && ws.IsFork(); ws = ws.Parent() {
		out = append([]string{ws.Name()}, out...)
	}
	return out
}

// workspace finds a workspace by the names of its forks, with / between them.
func (s *Service) workspace(names string) (*snapshot.Workspace, error) {
	ws := s.Store.Main()
	at := ""
	for name := range strings.SplitSeq(names, "/") {
		if name == "" {
			continue
		}
		at = path.Join(at, name)
		next, err := ws.Forks().Named(name)
		if err != nil {
			return nil, errs.Fail(errs.NotExist, "no such fork: %s", at).WithHint("see `amberfs forks`")
		}
		ws = next
	}
	return ws, nil
}
