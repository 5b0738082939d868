package snapshot

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// PromoteOptions says how conflicts are decided. Without Ours or Theirs they
// are refused.
type PromoteOptions struct {
	Ours    bool // the workspace's version stays
	Theirs  bool // the fork's version wins
	Caller  live.Caller
	Command string
}

// PromoteResult tells what a promotion did, or why it did nothing.
type PromoteResult struct {
	Fork      string       `json:"fork"`
	Conflicts []string     `json:"conflicts,omitempty"`
	Changed   int          `json:"changed"`
	Paths     []PathChange `json:"paths"`
	Undo      string       `json:"undo,omitempty"`
}

// ErrConflict is wrapped by the error of a promotion that was refused.
var ErrConflict = fmt.Errorf("changed on both sides")

// Promote brings what changed in a fork since its origin into the workspace.
// A path that changed on both sides in different ways is a conflict: nothing
// is touched then, unless the options decide.
func (w *Workspace) Promote(ctx context.Context, fork string, o PromoteOptions) (PromoteResult, error) {
	if o.Ours && o.Theirs {
		return PromoteResult{}, fmt.Errorf("%w: either ours or theirs", ErrInvalid)
	}
	s := w.store
	res := PromoteResult{Fork: fork}
	var inv live.Invalidation
	err := s.forest.Update(false, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		f, err := w.forkNamed(fork)
		if err != nil {
			return err
		}
		m, err := s.merge(ctx, tx, w, f, nil)
		if err != nil {
			return err
		}
		res.Conflicts = m.conflicts
		r := promoteRecord{Fork: f.view, Now: time.Now().UnixNano()}
		if len(m.conflicts) > 0 && !o.Theirs {
			if !o.Ours {
				return fmt.Errorf("%w: %s; decide with --ours or --theirs, or make them equal first", ErrConflict, strings.Join(m.conflicts, ", "))
			}
			r.Skip = BytePaths(m.conflicts)
		}
		if r.Pre, err = w.newSnapshot(tx, CaptureOptions{
			Origin: OriginPreRestore, Message: "before promotion of " + fork, Caller: o.Caller, Command: o.Command,
		}); err != nil {
			return err
		}
		if r.FirstIno, err = tx.MayGraft(w.view, "", m.changes); err != nil {
			return err
		}
		if err := s.journal(tx, recPromote, r); err != nil {
			return err
		}
		res.Undo = r.Pre.Name
		var changes []tree.Change
		changes, inv, err = s.applyPromote(tx, r)
		res.Paths = listChanges(changes)
		res.Changed = len(res.Paths)
		return err
	})
	if err != nil {
		return res, err
	}
	s.tell(inv)
	s.eventsOf(w, RestoreResult{Snapshot: fork, Paths: res.Paths, Undo: res.Undo}, RestoreOptions{Caller: o.Caller, Command: o.Command})
	return res, nil
}

func (s *Store) applyPromote(tx *live.Tx, r promoteRecord) ([]tree.Change, live.Invalidation, error) {
	f, ok := s.cat.workspaces[r.Fork]
	if !ok {
		return nil, live.Invalidation{}, fmt.Errorf("%w: a promotion of a fork that is gone", ErrNoFork)
	}
	w, ok := s.cat.workspaces[f.parent]
	if !ok {
		return nil, live.Invalidation{}, fmt.Errorf("%w: a promotion into a fork that is gone", ErrNoFork)
	}
	tx.SetCounters(r.FirstIno, 0)
	m, err := s.merge(context.Background(), tx, w, f, PathStrings(r.Skip))
	if err != nil {
		return nil, live.Invalidation{}, err
	}
	pre, err := s.applyCapture(tx, r.Pre)
	if err != nil {
		return nil, live.Invalidation{}, err
	}
	w.undo = pre.View
	st, err := tx.Capture(f.view)
	if err != nil {
		return nil, live.Invalidation{}, err
	}
	inv, err := tx.Graft(w.view, st, m.changes, live.Graft{Exact: m.clean, KeepFull: !m.clean, Now: r.Now})
	return m.changes, inv, err
}

// A merging is what a promotion is to do.
type merging struct {
	changes   []tree.Change
	conflicts []string
	clean     bool // the workspace did not change since the fork
}

// merge compares both sides with the fork's origin. The lock is held.
func (s *Store) merge(ctx context.Context, tx *live.Tx, w, f *Workspace, skip []string) (*merging, error) {
	o, ok := s.cat.snaps[f.origin]
	if !ok {
		return nil, fmt.Errorf("%w: fork %q has no origin", ErrNotFound, f.name)
	}
	base, err := s.stateOf(o)
	if err != nil {
		return nil, err
	}
	ours, _ := tx.State(w.view)
	theirs, _ := tx.State(f.view)
	m := &merging{clean: true}
	mine := make(map[string]tree.Change)
	if err := tree.Diff(ctx, s.src, base, ours, tree.DiffOptions{}, func(c tree.Change) error {
		m.clean = false
		if significant(c) {
			mine[c.Path] = c
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if m.clean {
		m.changes, err = tx.Diff(ctx, w.view, theirs, tree.DiffOptions{})
		return m, err
	}
	skipped := make(map[string]bool)
	for _, p := range skip {
		skipped[p] = true
	}
	added := make(map[string]bool) // directories that come with the fork
	err = tree.Diff(ctx, s.src, base, theirs, tree.DiffOptions{}, func(c tree.Change) error {
		if trivial(c) || under(c.Path, skipped) {
			return nil
		}
		if _, changed := mine[c.Path]; changed && !significant(c) {
			return nil // only touched in the fork
		}
		a, err := ours.Resolve(s.src, c.Path)
		if err != nil {
			a = nil
		}
		if conflict, err := s.conflicts(ours, c, a, mine, added); err != nil {
			return err
		} else if conflict {
			m.conflicts = append(m.conflicts, c.Path)
		}
		if a == nil && c.B == nil {
			return nil
		}
		above, err := s.missingParents(ours, theirs, c.Path, added)
		if err != nil {
			return err
		}
		m.changes = append(m.changes, above...)
		if c.B != nil && c.B.IsDir() {
			if added[c.Path] {
				return nil
			}
			added[c.Path] = true
		}
		m.changes = append(m.changes, tree.Change{Path: c.Path, A: a, B: c.B, What: c.What})
		return nil
	})
	return m, err
}

// under reports whether a path, or a directory above it, is in the set.
func under(p string, set map[string]bool) bool {
	for ; p != "." && p != "/" && p != ""; p = path.Dir(p) {
		if set[p] {
			return true
		}
	}
	return false
}

// trivial changes follow from others: the mtime of a directory whose entries
// changed.
func trivial(c tree.Change) bool {
	return c.A != nil && c.B != nil && c.A.IsDir() && c.B.IsDir() && c.What&^(tree.Mtime|tree.Links) == 0
}

// significant changes are more than another time: a file that was only touched,
// or brought back as it was, did not change.
func significant(c tree.Change) bool {
	return c.A == nil || c.B == nil || c.What&^(tree.Mtime|tree.Links) != 0
}

// conflicts reports whether what the fork changed at c was changed here too,
// to something else.
func (s *Store) conflicts(ours *tree.State, c tree.Change, a *tree.Inode, mine map[string]tree.Change, added map[string]bool) (bool, error) {
	if _, changed := mine[c.Path]; changed {
		if a == nil && c.B == nil {
			return false, nil
		}
		if a == nil || c.B == nil {
			return true, nil
		}
		same, err := tree.SameFile(s.src, a, c.B)
		return !same, err
	}
	if a != nil && a.IsDir() && c.B != nil && !c.B.IsDir() {
		for p := range mine {
			if strings.HasPrefix(p, c.Path+"/") {
				return true, nil
			}
		}
	}
	// A directory above it may have gone, or become something else, here.
	for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
		if m, changed := mine[dir]; changed && c.B != nil && (m.B == nil || !m.B.IsDir()) {
			return true, nil
		}
	}
	// The fork may have removed a directory that got something new here: then
	// only what the fork knew of goes.
	return false, nil
}
