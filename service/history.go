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
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// history has the operations that read the events of a workspace and its earlier states, and that undo one operation.
type history struct {
	log        *events.Log
	blameCache diff.BlameCache
}

// path compares the file at a path in each snapshot with the file in the previous snapshot, from the base to
// the present state.
func (*history) path(ctx context.Context, r *Request, a PathHistory) (History, error) {
	h := History{Path: string(a.Path), Entries: []HistoryEntry{}}
	entries, err := historyEntries(ctx, r)
	if err != nil {
		return h, err
	}

	before, release, err := r.Workspace.HoldState(baseStateName)
	defer func() { release() }()
	if err != nil {
		return h, err
	}

	node, err := before.InodeAt(r.source, h.Path)
	if err != nil {
		return h, err
	}

	inBase, intervals := node != nil, r.Workspace.Snapshots().Intervals()

	for i, e := range entries {
		state, releaseState, err := r.Workspace.HoldState(e.Snapshot)
		if err != nil {
			return h, err
		}

		was := node
		node, e.Action, err = comparePath(ctx, r.source, before, state, was, h.Path)
		release()
		before, release = state, releaseState
		if err = errors.Join(err, turns.Yield(ctx)); err != nil {
			return h, err
		}

		r.progress(Progress{What: "comparing snapshots", Done: int64(i + 1), Total: int64(len(entries))})
		if e.Action == "" || e.Action == pathUnchanged && !a.All {
			continue
		}
		if node != nil {
			e.Size = node.Size()
		}

		// The actors of the change are the actors of the file in the interval that ends with the snapshot.
		for len(intervals) > 0 && intervals[len(intervals)-1].To.Name != e.Snapshot {
			intervals = intervals[:len(intervals)-1]
		}

		dir := was != nil && was.IsDir() || node != nil && node.IsDir()
		if len(intervals) > 0 && !dir && e.Action != pathUnchanged {
			// actorsOf fails if a snapshot was deleted during the comparison: then the actors are unknown.
			e.Actors, _ = actorsOf(r, intervals[len(intervals)-1], was, node)
		}

		h.Entries = append(h.Entries, e)
	}

	if !inBase && len(h.Entries) == 0 {
		return h, errNoPath(h.Path)
	}

	slices.Reverse(h.Entries)

	return h, nil
}

// historyEntries returns an entry for each snapshot, the oldest first, and an entry for the present state. The caller
// sets the actions of the entries.
func historyEntries(ctx context.Context, r *Request) (entries []HistoryEntry, err error) {
	for _, i := range slices.Backward(r.Workspace.List()) {
		if !i.IsPastState() {
			continue
		}
		if err := chargeInfo(ctx, r.listMemoryCharge(), i); err != nil {
			return nil, err
		}
		entries = append(entries, HistoryEntry{Snapshot: i.Name, Seq: i.Seq, ID: i.ID, Created: i.Created, Message: i.Message})
	}

	return append(entries, HistoryEntry{Created: time.Now()}), nil
}

// pathUnchanged is the action in a HistoryEntry if the snapshot did not change the path.
const pathUnchanged = "unchanged"

// comparePath compares the file at a path in the states previous and state. The parameter old is the file in
// previous. The result now is the file in state. action is "" if neither state has a file at the path.
func comparePath(ctx context.Context, src *tree.Source, previous, state *tree.State, old *tree.Inode, path string) (now *tree.Inode, action string, err error) {
	now, err = state.InodeAt(src, path)
	if err != nil || old == nil && now == nil {
		return nil, "", err
	}

	if old != nil && now != nil {
		if differs, err := pathDiffers(ctx, src, previous, state, path); err != nil || !differs {
			return now, pathUnchanged, err
		}
	}

	return now, tree.Change{Before: old, After: now}.Action(), nil
}

// A contentChange is a change of a file's contents in an interval. A version of the file begins with it.
type contentChange struct {
	catalogue.Interval
	tree.Change
}

// blame finds the change with which each line of a file was written. It lists the versions of the file, the newest
// first, and then follows the lines from the oldest version on.
func (h *history) blame(ctx context.Context, r *Request, a Blame) (Blamed, error) {
	out := Blamed{Path: string(a.Path), Lines: []BlamedLine{}}
	var end info.Info
	if a.Snapshot != "" {
		var err error
		if end, err = r.Workspace.Find(a.Snapshot); err != nil {
			return out, err
		}
	}

	now, release, err := r.Workspace.HoldState(end.Name)
	if err != nil {
		return out, err
	}
	defer release()

	// Skip the intervals after the snapshot.
	intervals := r.Workspace.Snapshots().Intervals()
	for a.Snapshot != "" && len(intervals) > 0 && intervals[0].To.View != end.View {
		intervals = intervals[1:]
	}
	if a.Snapshot != "" && len(intervals) == 0 {
		return out, errs.Fail(errs.Invalid, "%s is not an earlier state of this workspace", a.Snapshot)
	}

	node, err := now.InodeAt(r.source, string(a.Path))
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

	changes, paths, err := contentChanges(ctx, r, string(a.Path), node, intervals, &releases)
	if err != nil {
		return out, err
	}

	memory := r.budget(TextMemory).NewCharge()
	defer memory.Release()

	b := diff.Blame{Source: r.source, Cache: &h.blameCache, Memory: memory}

	for n, v := range slices.Backward(changes) {
		if err := b.AddVersion(ctx, v.After, n); err != nil {
			if errors.Is(err, diff.ErrNoText) {
				err = errs.Fail(errs.Invalid, "%s has no lines: %w", a.Path, err)
			}
			return out, err
		}

		r.progress(Progress{What: "comparing versions", Done: int64(len(changes) - n), Total: int64(len(changes))})
	}

	lines, changeIndex, err := b.Lines(ctx)
	if err != nil {
		return out, err
	}

	const lineBytes = 400 // bytes of a line in the answer, without its text
	const copies = 3      // number of copies of the text in memory, until the answer is sent
	if err := r.listMemoryCharge().Add(ctx, int64(len(lines))*lineBytes+copies*node.Size()); err != nil {
		return out, err
	}

	writes := h.fileEvents(r, paths)
	describedChanges := make(map[int]BlamedLine)

	for n, line := range lines {
		l, ok := describedChanges[changeIndex[n]]
		if !ok {
			if l, err = describeChange(r, changes[changeIndex[n]], writes); err != nil {
				return out, err
			}
			describedChanges[changeIndex[n]] = l
		}

		l.Line, l.Text = n+1, strings.TrimSuffix(string(line), "\n")
		out.Lines = append(out.Lines, l)
	}

	return out, nil
}

// contentChanges returns the changes with which the versions of a file began, the newest first, and the paths that
// the file had. node is the file at the end of the newest interval. The caller calls the functions that
// contentChanges appends to releases, also after an error.
func contentChanges(ctx context.Context, r *Request, path string, node *tree.Inode, intervals []catalogue.Interval, releases *[]func()) (all []contentChange, paths []string, err error) {
	src := r.source
	paths = []string{path}

	for n, i := range intervals {
		if err := turns.Yield(ctx); err != nil {
			return nil, nil, err
		}

		older, release, err := r.Workspace.HoldState(cmp.Or(i.From.Name, baseStateName))
		if err != nil {
			return nil, nil, err
		}

		*releases = append(*releases, release)
		before, err := older.InodeAt(r.source, path)
		if err != nil {
			return nil, nil, err
		}

		if before == nil && node != nil { // the file is new at this path: look for it under another name
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
				all = append(all, contentChange{i, tree.Change{Before: before, After: node}})
			}
			if before == nil {
				return all, paths, nil
			}
		}

		node = before
		if n == len(intervals)-1 && node != nil {
			all = append(all, contentChange{catalogue.Interval{To: i.From}, tree.Change{After: node}})
		}
	}

	return all, paths, nil
}

// fileEvents returns the events at the paths of a file, except for deletions. It leaves out events that it
// cannot read.
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

// describeChange returns a BlamedLine for the lines that came with the change v, without number and text. It has the
// snapshot and the actors of the change. If the event log still has the last command of the change, it also has the
// command.
func describeChange(r *Request, v contentChange, fileEvents []events.Event) (BlamedLine, error) {
	l := BlamedLine{Snapshot: v.To.Name, Time: v.To.Created, Actors: []string{actors.Unknown}}
	if v.IsPresent() {
		l.Time = time.Now()
	}
	if v.From.View == 0 {
		return l, nil // the workspace began with this version
	}

	changers, err := actorsOf(r, v.Interval, v.Before, v.After)
	if err != nil {
		return l, err
	}
	if len(changers) > 0 {
		l.Actors = changers
	}

	for _, e := range slices.Backward(fileEvents) {
		if !e.Time.After(l.Time) && e.Time.After(v.From.Created) {
			l.Command, l.Time = e.Command, e.Time
			break
		}
	}

	return l, nil
}

// events sends the events that match a. If a.Limit is set, it first reads all events, and then sends the newest ones.
func (h *history) events(ctx context.Context, r *Request, a Log) (None, error) {
	since, err := ParseSince(a.Since)
	if err = errors.Join(err, checkOneOf("action", a.Action, events.ActionNames())); err != nil {
		return None{}, err
	}

	var last []events.Event
	send := func(e events.Event) error {
		switch {
		case !concerns(e, string(a.Path)) || !a.matches(e) || e.Time.Before(since):
		case a.Limit == 0 || a.Follow:
			return r.Item(e)
		default:
			last = append(last, e)
			last = last[max(0, len(last)-a.Limit):]
		}
		return nil
	}
	if a.Follow && !r.Caller.ViaSocket {
		return None{}, errs.Fail(errs.Invalid, "events can be followed only through the socket").WithHint("use `tail -f .snapshots/log`")
	}
	if err := h.log.Flush(); err != nil {
		r.log.Warn("writing events", "err", err)
	}
	if a.New {
		a.After = max(a.After, h.log.LastSeq(r.Workspace.View()))
	}
	if a.Follow {
		var elsewhere func() error
		if a.Elsewhere {
			elsewhere = func() error { return r.Item(events.Event{Time: time.Now(), Action: "elsewhere"}) }
		}
		return None{}, h.log.Follow(ctx, r.Workspace.View(), a.After, send, elsewhere)
	}
	if a.Limit < 0 || a.Limit > maxEventLimit {
		return None{}, errs.Fail(errs.Invalid, "the limit of events is 1 to %d, not %d", maxEventLimit, a.Limit)
	}

	if err := reserveMemory(ctx, r.listMemoryCharge(), eventBytes*int64(a.Limit)); err != nil {
		return None{}, err
	}

	if err := h.log.Read(r.Workspace.View(), a.After, send); err != nil {
		return None{}, err
	}

	for _, e := range last {
		if err := r.Item(e); err != nil {
			return None{}, err
		}
	}

	return None{}, nil
}

const (
	maxEventLimit = 10_000 // the largest limit in a request for events
	eventBytes    = 2000   // bytes of an event in memory
)

// matches reports whether an event has the action, the command and the actor in the fields of a.
func (a Log) matches(e events.Event) bool {
	return (a.Action == "" || e.Action == a.Action) && strings.HasPrefix(e.Command, a.Command) && (a.By == "" || actors.IsOrBelow(e.Actor, a.By))
}

// concerns reports whether the path of an event, or the old path of a rename, is at or below path.
func concerns(e events.Event, path string) bool {
	if path == "" || path == "." {
		return true
	}
	return naming.IsUnder(e.Path, path) || e.Action == events.Renamed && naming.IsUnder(e.From, path)
}
