package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// RestoreOptions says what to bring back.
type RestoreOptions struct {
	Name    string   // of the snapshot
	Paths   []string // relative to the root; everything when empty
	DryRun  bool
	Caller  live.Caller
	Command string
}

// A PathChange is a path that a restore, an import or a promotion changed.
type PathChange struct {
	Path   string `json:"path"`
	Action string `json:"action"` // created, modified, deleted

	size int64 // bytes, after the change
}

// RestoreResult tells what a restore did, or would do.
type RestoreResult struct {
	Snapshot string       `json:"snapshot"`
	Changed  int          `json:"changed"`
	Paths    []PathChange `json:"paths"`
	Undo     string       `json:"undo,omitempty"` // the snapshot of the state before
}

// Restore makes the workspace, or some paths of it, equal to a snapshot. The
// state before is captured first.
func (w *Workspace) Restore(ctx context.Context, o RestoreOptions) (RestoreResult, error) {
	s := w.store
	start := time.Now()
	paths, err := cleanPaths(o.Paths)
	if err != nil {
		return RestoreResult{}, err
	}
	var res RestoreResult
	var inv live.Invalidation
	err = s.forest.Update(false, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		sn, err := s.find(w, o.Name)
		if err != nil {
			return err
		}
		changes, err := s.restoreChanges(ctx, tx, w, sn, paths)
		if err != nil {
			return err
		}
		res = RestoreResult{Snapshot: sn.Name, Paths: listChanges(changes)}
		res.Changed = len(res.Paths)
		if o.DryRun {
			return nil
		}
		pre, err := w.newSnapshot(tx, CaptureOptions{Origin: OriginPreRestore, Message: "before restore of " + sn.Name, Caller: o.Caller, Command: o.Command})
		if err != nil {
			return err
		}
		ino, err := tx.MayGraft(w.view, "", changes)
		if err != nil {
			return err
		}
		r := restoreRecord{WS: w.view, View: sn.View, Paths: BytePaths(paths), Now: time.Now().UnixNano(), FirstIno: ino, Pre: pre}
		if err := s.journal(tx, recRestore, r); err != nil {
			return err
		}
		res.Undo = pre.Name
		inv, err = s.restoreTo(tx, w, sn, r, changes)
		return err
	})
	if err != nil || o.DryRun {
		return res, err
	}
	s.figures.restored(time.Since(start))
	s.tell(inv)
	s.eventsOf(w, res, o)
	return res, nil
}

// eventsOf tells of the capture before a restore, and of each path that it
// changed.
func (s *Store) eventsOf(w *Workspace, res RestoreResult, o RestoreOptions) {
	s.event(Event{Workspace: w.view, Action: "captured", From: res.Undo, Caller: o.Caller, Command: o.Command})
	for _, c := range res.Paths {
		s.event(Event{
			Workspace: w.view, Action: "restored", Path: c.Path, From: res.Snapshot, Size: c.size, Detail: c.Action,
			Caller: o.Caller, Command: o.Command,
		})
	}
}

// applyRestore makes the restore that a record tells of.
func (s *Store) applyRestore(tx *live.Tx, r restoreRecord) error {
	w, ok := s.cat.workspaces[r.WS]
	sn, found := s.cat.snaps[r.View]
	if !ok || !found {
		return fmt.Errorf("%w: a restore of a snapshot that is gone", ErrNotFound)
	}
	tx.SetCounters(r.FirstIno, 0)
	changes, err := s.restoreChanges(context.Background(), tx, w, sn, PathStrings(r.Paths))
	if err != nil {
		return err
	}
	_, err = s.restoreTo(tx, w, sn, r, changes)
	return err
}

// restoreTo makes the changes of a restore, after a capture of the state before.
func (s *Store) restoreTo(tx *live.Tx, w *Workspace, sn *snap, r restoreRecord, changes []tree.Change) (live.Invalidation, error) {
	pre, err := s.applyCapture(tx, r.Pre)
	if err != nil {
		return live.Invalidation{}, err
	}
	w.undo = pre.View
	st, err := s.stateOf(sn)
	if err != nil {
		return live.Invalidation{}, err
	}
	partial := len(r.Paths) > 0
	inv, err := tx.Graft(w.view, st, changes, live.Graft{Touch: partial, Exact: !partial, Now: r.Now})
	if err != nil || partial {
		return inv, err
	}
	w.head = sn.Name
	return inv, w.keepTwin(tx, sn.View)
}

// A twin is the state of a workspace right after a restore. It equals the
// snapshot but for the inode numbers of the files that the restore put in
// place: a comparison with the snapshot would look at each of these again, at
// every restore more of them.
type twin struct {
	view  uint32 // of the snapshot
	state *tree.State
}

// maxTwins bounds how many snapshots a workspace goes back to at no more than
// the cost of what differs.
const maxTwins = 4

func (w *Workspace) keepTwin(tx *live.Tx, view uint32) error {
	st, err := tx.Capture(w.view)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(w.twins, func(t twin) bool { return t.view == view })
	w.twins = append(kept[max(0, len(kept)-maxTwins+1):], twin{view, st})
	return nil
}

// twin returns nil when there is none for a snapshot.
func (w *Workspace) twin(view uint32) *tree.State {
	for _, t := range w.twins {
		if t.view == view {
			return t.state
		}
	}
	return nil
}

// restoreChanges tells what a restore has to change. The lock is held.
func (s *Store) restoreChanges(ctx context.Context, tx *live.Tx, w *Workspace, sn *snap, paths []string) ([]tree.Change, error) {
	st, err := s.stateOf(sn)
	if err != nil {
		return nil, err
	}
	now, _ := tx.State(w.view)
	var above []tree.Change
	seen := make(map[string]bool)
	for _, p := range paths {
		if err := s.checkRestorePath(now, st, sn.Name, p); err != nil {
			return nil, err
		}
		more, err := s.missingParents(now, st, p, seen)
		if err != nil {
			return nil, err
		}
		above = append(above, more...)
	}
	twin := w.twin(sn.View)
	changes, err := tx.Diff(ctx, w.view, st, tree.DiffOptions{Paths: paths, Twin: twin})
	if err != nil && twin != nil && ctx.Err() == nil {
		// Whatever is wrong with the twin, it can be done without.
		s.logger.Warn("comparing by the twin of a snapshot", "snapshot", sn.Name, "error", err)
		w.twins = nil
		changes, err = tx.Diff(ctx, w.view, st, tree.DiffOptions{Paths: paths})
	}
	if err != nil {
		return nil, err
	}
	if len(paths) > 0 {
		changes = withoutSeen(changes, seen)
	}
	return append(above, changes...), nil
}

func withoutSeen(changes []tree.Change, seen map[string]bool) []tree.Change {
	out := changes[:0]
	for _, c := range changes {
		if !seen[c.Path] {
			out = append(out, c)
		}
	}
	return out
}

// missingParents are the directories above a path that the workspace has lost.
func (s *Store) missingParents(now, then *tree.State, p string, seen map[string]bool) ([]tree.Change, error) {
	var out []tree.Change
	if _, err := then.Resolve(s.src, p); err != nil {
		return nil, nil // it did not exist then, and neither need its parents
	}
	parts := strings.Split(p, "/")
	for i := 1; i < len(parts); i++ {
		dir := strings.Join(parts[:i], "/")
		a, err := now.Resolve(s.src, dir)
		if err != nil {
			a = nil
		}
		if a != nil && a.IsDir() || seen[dir] {
			continue
		}
		b, err := then.Resolve(s.src, dir)
		if err != nil {
			return nil, err
		}
		seen[dir] = true
		out = append(out, tree.Change{Path: dir, A: a, B: b, What: tree.Added})
	}
	return out, nil
}

func (s *Store) checkRestorePath(now, then *tree.State, name, p string) error {
	_, errNow := now.Resolve(s.src, p)
	_, errThen := then.Resolve(s.src, p)
	for _, err := range []error{errNow, errThen} {
		if errors.Is(err, tree.ErrSymlink) {
			return fmt.Errorf("%w: %s leads through a symlink; name the path that it stands for", ErrInvalid, p)
		}
	}
	if errNow != nil && errThen != nil {
		return fmt.Errorf("%w: %s is neither in the workspace nor in snapshot %s", ErrNoPath, p, name)
	}
	return nil
}

// cleanPaths checks paths that a user gave and brings them to one form.
func cleanPaths(in []string) ([]string, error) {
	var out []string
	for _, p := range in {
		if p == "" || strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
			return nil, fmt.Errorf("%w: path %q is not relative to the workspace's root", ErrInvalid, p)
		}
		clean := path.Clean(p)
		if clean == ".." || strings.HasPrefix(clean, "../") {
			return nil, fmt.Errorf("%w: path %q leaves the workspace", ErrInvalid, p)
		}
		if clean == "." {
			return nil, nil
		}
		if clean == ".snapshots" || clean == ".forks" || strings.HasPrefix(clean, ".snapshots/") || strings.HasPrefix(clean, ".forks/") {
			return nil, fmt.Errorf("%w: path %q is not part of the workspace", ErrInvalid, p)
		}
		out = append(out, clean)
	}
	return out, nil
}

// listChanges is what users see of a list of changes: directories only where
// they come, go or have other rights.
func listChanges(changes []tree.Change) []PathChange {
	out := make([]PathChange, 0, len(changes))
	for _, c := range changes {
		if c.A != nil && c.B != nil && c.A.IsDir() && c.B.IsDir() && c.What&^(tree.Mtime|tree.Links) == 0 {
			continue
		}
		p := PathChange{Path: c.Path, Action: "modified"}
		switch {
		case c.A == nil:
			p.Action = "created"
		case c.B == nil:
			p.Action = "deleted"
		}
		if c.B != nil {
			p.size = c.B.Size()
		}
		if p.Path == "" {
			p.Path = "."
		}
		out = append(out, p)
	}
	return out
}
