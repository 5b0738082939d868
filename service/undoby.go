package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

func listActors(_ context.Context, r *Request, _ Actors) (ActorList, error) {
	known := make(map[string]*ActorState)

	for _, i := range r.Workspace.Snapshots().Intervals() {
		for _, name := range i.Actors {
			a := known[name]
			if a == nil {
				a = &ActorState{Name: name, Last: i.To.Created, Now: i.Now()}
				known[name] = a
			}

			if a.First = i.From.Created; !i.Now() {
				a.Snapshots++
			}
		}
	}

	out := ActorList{Actors: []ActorState{}}
	for _, a := range known {
		if a.Now {
			a.Last = time.Now()
		}
		out.Actors = append(out.Actors, *a)
	}

	slices.SortFunc(out.Actors, func(a, b ActorState) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Name, b.Name))
	})

	return out, nil
}

// knownActor returns an error if an actor has changed nothing in the workspace, is not registered for
// it, and is not the caller.
func knownActor(ctx context.Context, r *Request, by string) error {
	if err := actors.Check(by); err != nil {
		return err
	}

	list, err := listActors(ctx, r, Actors{})
	if err != nil {
		return err
	}

	names := []string{actors.Unknown, r.Caller.Actor}
	for _, a := range list.Actors {
		top, _, _ := strings.Cut(a.Name, "/")
		names = append(names, a.Name, top)
	}
	if actors.Among(names, by) || r.Workspace.Store().Actors().Registered(by, r.Workspace.View()) {
		return nil
	}

	return withSuggestion(errs.Fail(errs.NotExist, "there is no actor %s", by), by, names, "see `amberfs actors`")
}

// completeUndo completes the options of a request. If o.Since is not a snapshot, it is a time, which
// becomes o.After.
func completeUndo(ctx context.Context, r *Request, o snapshot.UndoByOptions) (snapshot.UndoByOptions, error) {
	if err := knownActor(ctx, r, o.By); err != nil {
		return o, err
	}

	o.Merge, o.Caller, o.List = r.textMerger().Merge, r.Caller, r.list()
	since := o.Since
	if _, err := r.Workspace.Find(since); err == nil {
		return o, nil
	}

	var err error
	o.Since = ""
	if o.After, err = ParseSince(since); err != nil {
		return o, errs.Fail(errs.Invalid, "since is a snapshot, a duration such as 2h or 7d, or a date, not %q", since)
	}
	if o.After.After(time.Now()) {
		return o, errs.Fail(errs.Invalid, "since is after now: %s", since)
	}

	return o, nil
}

func undoBy(ctx context.Context, r *Request, a snapshot.UndoByOptions) (UndoneBy, error) {
	o, err := completeUndo(ctx, r, a)
	if err != nil {
		return UndoneBy{}, err
	}

	done, err := r.Workspace.Snapshots().UndoBy(ctx, o)
	done.Paths = emptyIfNil(done.Paths)
	result := UndoneBy{UndoByResult: done}
	if errors.Is(err, threeway.ErrConflict) {
		return result, errs.Fail(errs.Conflict, "others changed %s of %s, too; nothing is touched", plural(len(done.Conflicts), "path", "paths"), a.By).
			WithHint("decide with --ours (keep them as they are) or --theirs (as before %s)", a.By).WithResult(result)
	}
	if err != nil {
		return result, explainConflict(err, result, nil, "", "")
	}
	if done.Undo != "" && !actors.Below(r.Caller.Actor, a.By) {
		result.Later = r.Workspace.Snapshots().Intervals()[0].By(a.By)
	}

	return result, nil
}

// changedBy returns the files that an actor changed between the snapshots a and b, or up to now if b
// is "". The order of a and b does not matter.
func changedBy(ctx context.Context, r *Request, by, a, b string, paths []naming.BytePath) ([]naming.BytePath, error) {
	if err := knownActor(ctx, r, by); err != nil {
		return nil, err
	}

	from, err := r.Workspace.Find(a)
	if err != nil {
		return nil, err
	}

	var to info.Info
	if b != "" {
		if to, err = r.Workspace.Find(b); err != nil {
			return nil, err
		}
		if to.Seq < from.Seq {
			from, to = to, from
		}
	}

	// The intervals are ordered from now to the base.
	var out []naming.BytePath
	within, ended := b == "", false

	for _, i := range r.Workspace.Snapshots().Intervals() {
		within = within || i.To.View == to.View && !i.Now()
		if within && !ended && i.By(by) {
			if err := pathsBy(ctx, r, i, by, limitTo(paths...), &out); err != nil {
				return nil, err
			}
		}

		ended = ended || within && i.From.View == from.View
	}
	if !ended {
		return nil, errs.Fail(errs.Invalid, "%s and %s are not earlier states of this workspace", a, cmp.Or(b, "now"))
	}

	return out, nil
}

// pathsBy appends to out the files that an actor changed in an interval.
func pathsBy(ctx context.Context, r *Request, i catalogue.Interval, by string, within []string, out *[]naming.BytePath) error {
	open, err := r.Workspace.Snapshots().Open(i)
	if err != nil {
		return err
	}
	defer open.Close()

	list := r.list()
	return open.Changes(ctx, tree.DiffOptions{Paths: within}, func(c graft.ChangedBy) error {
		if !actors.Among(c.By, by) || c.Before != nil && c.Before.IsDir() || c.After != nil && c.After.IsDir() {
			return turns.Yield(ctx)
		}
		*out = append(*out, naming.BytePath(c.Path.String()))
		return list.Add(ctx, 100+int64(c.Path.Len()))
	})
}

// A version is the contents of a file that it got in an interval.
type version struct {
	catalogue.Interval
	before, node *tree.Inode // the file before and after the interval
}

// history has the operations that read the events of a workspace.
type history struct {
	log    *events.Log
	blames diff.BlameCache
}

// blame finds the versions of a file, the newest first, then follows its lines from the oldest version
// on.
func (h *history) blame(ctx context.Context, r *Request, a Blame) (Blamed, error) {
	out := Blamed{Path: string(a.Path), Lines: []BlamedLine{}}
	var at info.Info
	if a.Snapshot != "" {
		var err error
		if at, err = r.Workspace.Find(a.Snapshot); err != nil {
			return out, err
		}
	}

	now, release, err := r.Workspace.Held(at.Name)
	if err != nil {
		return out, err
	}
	defer release()

	// Skip the intervals after the snapshot.
	intervals := r.Workspace.Snapshots().Intervals()
	for a.Snapshot != "" && len(intervals) > 0 && intervals[0].To.View != at.View {
		intervals = intervals[1:]
	}
	if a.Snapshot != "" && len(intervals) == 0 {
		return out, errs.Fail(errs.Invalid, "%s is not an earlier state of this workspace", a.Snapshot)
	}

	node, err := now.At(r.source(), string(a.Path))
	switch {
	case err != nil:
		return out, err
	case node == nil:
		return out, errs.Fail(errs.NotExist, "there is no %s", a.Path).WithHint("see `amberfs history %s`", a.Path)
	case !node.IsRegular():
		return out, errs.Fail(errs.Invalid, "%s is not a regular file", a.Path)
	}

	// The versions are protected from gc until their lines are read.
	var releases []func()
	defer func() {
		for _, release := range releases {
			release()
		}
	}()

	versions, paths, err := versions(ctx, r, string(a.Path), node, intervals, &releases)
	if err != nil {
		return out, err
	}

	memory := r.budget(Texts).Charge()
	defer memory.Release()

	b := diff.Blame{Source: r.source(), Cache: &h.blames, Memory: memory}

	for n, v := range slices.Backward(versions) {
		if err := b.Next(ctx, v.node, n); err != nil {
			if errors.Is(err, diff.ErrNoText) {
				err = errs.Fail(errs.Invalid, "%s has no lines: %w", a.Path, err)
			}
			return out, err
		}

		r.progress(Progress{What: "comparing versions", Done: int64(len(versions) - n), Total: int64(len(versions))})
	}

	lines, from, err := b.Lines(ctx)
	if err != nil {
		return out, err
	}

	const answerCost = 400 // bytes of a line in the answer, without its text
	const copies = 3       // of the texts, until the answer is sent
	if err := r.list().Add(ctx, int64(len(lines))*answerCost+copies*node.Size()); err != nil {
		return out, err
	}

	changes := h.fileEvents(r, paths)
	known := make(map[int]BlamedLine)

	for n, line := range lines {
		l, ok := known[from[n]]
		if !ok {
			if l, err = describeVersion(r, versions[from[n]], changes); err != nil {
				return out, err
			}
			known[from[n]] = l
		}

		l.Line, l.Text = n+1, strings.TrimSuffix(string(line), "\n")
		out.Lines = append(out.Lines, l)
	}

	return out, nil
}

// versions returns the versions of a file, the newest first, and the paths that it had. The caller
// calls the functions that versions appends to releases, also after an error.
func versions(ctx context.Context, r *Request, path string, node *tree.Inode, intervals []catalogue.Interval, releases *[]func()) (all []version, paths []string, err error) {
	src := r.source()
	paths = []string{path}

	for n, i := range intervals {
		if err := turns.Yield(ctx); err != nil {
			return nil, nil, err
		}

		older, release, err := r.Workspace.Held(cmp.Or(i.From.Name, snapshotBase))
		if err != nil {
			return nil, nil, err
		}

		*releases = append(*releases, release)
		before, err := older.At(r.source(), path)
		if err != nil {
			return nil, nil, err
		}

		if before == nil && node != nil { // look for the file under another name
			if was, err := older.Get(src, node.Ino); err == nil && was.IsRegular() {
				names, err := older.Paths(src, was)
				if err != nil {
					return nil, nil, err
				}

				path, before = names[0], was
				paths = append(paths, path)
			}
		}

		if node != nil {
			same := before != nil && before.IsRegular()
			if same {
				if same, err = tree.SameData(src, before, node); err != nil {
					return nil, nil, err
				}
			}

			if !same {
				all = append(all, version{i, before, node})
			}
			if before == nil {
				return all, paths, nil
			}
		}

		node = before
		if n == len(intervals)-1 && node != nil {
			all = append(all, version{catalogue.Interval{To: i.From}, nil, node})
		}
	}

	return all, paths, nil
}

// fileEvents returns the events at the paths of a file, except for its deletion. It leaves out events that
// it cannot read.
func (h *history) fileEvents(r *Request, paths []string) []events.Event {
	var all []events.Event
	if err := errors.Join(h.log.Flush(), h.log.Read(r.Workspace.View(), 0, func(e events.Event) error {
		if slices.Contains(paths, e.Path) && e.Action != events.Deleted {
			all = append(all, e)
		}
		return nil
	})); err != nil {
		r.log.Warn("reading the events of a file", "err", err)
	}

	return all
}

// actorsOf returns the actors that changed a file in an interval, sorted. nodes are the file before and
// after the interval; each may be nil.
func actorsOf(r *Request, i catalogue.Interval, nodes ...*tree.Inode) (by []string, err error) {
	open, err := r.Workspace.Snapshots().Open(i)
	if err != nil {
		return nil, err
	}
	defer open.Close()

	for _, n := range nodes {
		if n != nil {
			by = append(by, open.Set.Of(n.Ino)...)
		}
	}

	if len(by) == 0 {
		by = open.Set.Rest()
	}

	slices.Sort(by)

	return slices.Compact(by), nil
}

// describeVersion returns a line of a version, without number and text: its snapshot, its actors and,
// if the event log still has it, the last command that changed the file.
func describeVersion(r *Request, v version, changes []events.Event) (BlamedLine, error) {
	l := BlamedLine{Snapshot: v.To.Name, Time: v.To.Created, Actors: []string{actors.Unknown}}
	if v.Now() {
		l.Time = time.Now()
	}
	if v.From.View == 0 {
		return l, nil // the workspace began with this version
	}

	by, err := actorsOf(r, v.Interval, v.before, v.node)
	if err != nil {
		return l, err
	}
	if len(by) > 0 {
		l.Actors = by
	}

	for _, e := range slices.Backward(changes) {
		if !e.Time.After(l.Time) && e.Time.After(v.From.Created) {
			l.Command, l.Time = e.Command, e.Time
			break
		}
	}

	return l, nil
}
