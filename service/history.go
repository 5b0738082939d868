package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// writeDiff writes the differences between two states. With a.By, it compares only the files that the actor
// changed between them.
func writeDiff(ctx context.Context, r *Request, a Diff) (None, error) {
	if a.By != "" {
		changed, err := changedBy(ctx, r, a.By, a.A, a.B, a.Paths)
		if err != nil || len(changed) == 0 {
			return None{}, err
		}
		a.Paths = changed
	}

	list := r.budget(Lists).Charge()
	defer list.Release()

	return None{}, compare(r, a.A, a.B, func(from, to *tree.State) error {
		o := diff.Options{Binary: a.Binary, Width: a.Width, Memory: r.budget(Texts), List: list, Paths: limitTo(a.Paths...)}
		switch a.Format {
		case "", "patch":
			return diff.Write(ctx, r.Out, r.source(), from, to, o)
		case "stat":
			return diff.Stat(ctx, r.Out, r.source(), from, to, o)
		case "name-status":
			return diff.NameStatus(ctx, r.Out, r.source(), from, to, o)
		}

		return errs.Fail(errs.Invalid, "there is no diff format %q", a.Format)
	})
}

// compare calls fn with the states that a and b name, see holdState. Only b can be "", the present
// state. The states are released when fn returns.
func compare(r *Request, a, b string, fn func(from, to *tree.State) error) error {
	if a == "" {
		_, err := r.Workspace.Find(a) // the error for an empty name
		return err
	}

	from, release, err := holdState(r, a)
	if err != nil {
		return err
	}
	defer release()

	to, release, err := holdState(r, b)
	if err != nil {
		return err
	}
	defer release()

	return fn(from, to)
}

// inForks is the prefix of the name of a fork's state, see holdState.
const inForks = naming.ForksDir + "/"

// holdState returns the state that name stands for: the present state for "", the state of a
// snapshot or, for a caller of the socket, a state of a fork, spelled as in the mount: .forks/F or
// .forks/F/.snapshots/S. The state's objects are protected from gc until release is called.
func holdState(r *Request, name string) (st *tree.State, release func(), err error) {
	ws := r.Workspace

	for {
		rest, ok := strings.CutPrefix(name, inForks)
		if !ok {
			break
		}

		if !r.Caller.Direct {
			return nil, nil, errs.Fail(errs.Perm, "a state of another workspace needs the store's socket, which cannot be reached from here").
				WithHint("compare the files below %s", naming.ForksDir)
		}

		fork, in, _ := strings.Cut(rest, "/")
		next, err := ws.Forks().Named(fork)
		if err != nil {
			return nil, nil, err
		}
		ws, name = next, strings.TrimPrefix(in, naming.SnapshotsDir+"/")
	}
	if name == "" {
		return ws.Seen(r.Caller)
	}

	return ws.Held(name)
}

// listChanges lists the files that differ between two states, and perhaps their numbers of changed lines.
func listChanges(ctx context.Context, r *Request, a Changes) (Diffed, error) {
	d := Diffed{Paths: []DiffedFile{}}
	list := r.list()

	if a.By != "" {
		changed, err := changedBy(ctx, r, a.By, a.A, a.B, a.Paths)
		if err != nil || len(changed) == 0 {
			return d, err
		}
		a.Paths = changed
	}

	err := compare(r, a.A, a.B, func(from, to *tree.State) (err error) {
		var files []diff.File
		if a.Quick && a.Limit > 0 {
			files, d.More, err = diff.First(ctx, r.source(), from, to, diff.Options{Paths: limitTo(a.Paths...)}, a.Limit)
			if err != nil {
				return err
			}
		}

		if !d.More {
			files, err = diff.Files(ctx, r.source(), from, to, diff.Options{List: list, Paths: limitTo(a.Paths...)})
			if err != nil {
				return err
			}
		}

		d.Files = len(files)
		if a.Limit > 0 {
			files = files[:min(a.Limit, len(files))]
		}
		for _, f := range files {
			d.Paths = append(d.Paths, diffedFile(f))
		}
		if !a.Lines || d.More {
			return nil
		}

		return countLines(ctx, r, files, d.Paths)
	})

	return d, err
}

// countLines sets the numbers of changed lines of the first files. After countTime it leaves the rest
// without numbers.
func countLines(ctx context.Context, r *Request, files []diff.File, out []DiffedFile) error {
	const maxCounted, countTime = 300, time.Second / 2
	counting, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()

	o := diff.Options{Memory: r.budget(Texts)}
	err := diff.Lines(counting, r.source(), files[:min(len(files), maxCounted)], o, func(i int, added, removed int64, binary bool) {
		if out[i].Binary = binary; !binary {
			out[i].Added, out[i].Removed = &added, &removed
		}
	})
	if counting.Err() != nil {
		return ctx.Err()
	}

	return err
}

func diffedFile(f diff.File) DiffedFile {
	d := DiffedFile{Status: string(rune(f.Status)), Path: f.Path, Raw: naming.Raw(f.Path), OldSize: diff.Size(f.Before), NewSize: diff.Size(f.After)}
	if f.Status == diff.Renamed {
		d.From, d.RawFrom, d.Score = f.OldPath, naming.Raw(f.OldPath), f.Similarity
	}
	return d
}

// pathHistory compares the path in each snapshot with the path in the snapshot before, from the base to
// the present state.
func pathHistory(ctx context.Context, r *Request, a PathHistory) (History, error) {
	h := History{Path: string(a.Path), Entries: []HistoryEntry{}}
	var states []HistoryEntry
	for _, i := range slices.Backward(r.Workspace.List()) {
		if !i.Past() {
			continue
		}
		if err := chargeInfo(ctx, r.list(), i); err != nil {
			return h, err
		}
		states = append(states, HistoryEntry{Snapshot: i.Name, Seq: i.Seq, ID: i.ID, Created: i.Created, Message: i.Message})
	}
	states = append(states, HistoryEntry{Created: time.Now()})

	before, release, err := r.Workspace.Held(snapshotBase)
	defer func() { release() }()
	if err != nil {
		return h, err
	}

	node, err := before.At(r.source(), h.Path)
	if err != nil {
		return h, err
	}

	inBase, intervals := node != nil, r.Workspace.Snapshots().Intervals()

	for i, e := range states {
		state, releaseState, err := r.Workspace.Held(e.Snapshot)
		if err != nil {
			return h, err
		}

		was := node
		node, e.Action, err = compareAt(ctx, r.source(), before, state, was, h.Path)
		release()
		before, release = state, releaseState
		if err = errors.Join(err, turns.Yield(ctx)); err != nil {
			return h, err
		}

		r.progress(Progress{What: "comparing snapshots", Done: int64(i + 1), Total: int64(len(states))})
		if e.Action == "" || e.Action == pathUnchanged && !a.All {
			continue
		}
		if node != nil {
			e.Size = node.Size()
		}

		// The actors of a file are those of the interval that ends with the snapshot.
		for len(intervals) > 0 && intervals[len(intervals)-1].To.Name != e.Snapshot {
			intervals = intervals[:len(intervals)-1]
		}

		dir := was != nil && was.IsDir() || node != nil && node.IsDir()
		if len(intervals) > 0 && !dir && e.Action != pathUnchanged {
			// It fails if a snapshot was deleted during the comparison: then the actors are unknown.
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

// pathUnchanged is the action of a history at a snapshot in which the path is as in the snapshot before.
const pathUnchanged = "unchanged"

// compareAt compares a path in a state with was, the path in the state before. action is "" if neither
// state has it.
func compareAt(ctx context.Context, src *tree.Source, before, state *tree.State, was *tree.Inode, path string) (now *tree.Inode, action string, err error) {
	now, err = state.At(src, path)
	switch {
	case err != nil || was == nil && now == nil:
		return nil, "", err
	case was == nil:
		return now, "created", nil
	case now == nil:
		return nil, "deleted", nil
	}

	differs, err := differs(ctx, src, before, state, path)
	if differs {
		return now, "modified", err
	}

	return now, pathUnchanged, err
}
