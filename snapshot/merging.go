package snapshot

import (
	"context"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A merging is what a promotion is to do.
type merging struct {
	s                  *Store
	base, ours, theirs *tree.State

	changes   *live.Steps
	conflicts []string
	clean     bool            // the workspace did not change since the fork
	above     map[string]bool // directories in which something changed here

	collisions []collision                 // the conflicts
	texts      map[string]*content.Content // what merged, by path
	now        int64                       // the time of what merged
	list       *budget.Charge              // of all that differs
}

// newMerging is for an edit of the workspace that a fork came from. The lock is held.
func (s *Store) newMerging(tx *live.Tx, e *live.Edit, f *Workspace) (*merging, error) {
	o, ok := s.cat.snaps[f.origin]
	if !ok {
		return nil, fmt.Errorf("%w: fork %q has no origin", ErrNotFound, f.name)
	}
	base, err := s.stateOf(o)
	if err != nil {
		return nil, err
	}
	theirs, err := tx.Capture(f.view)
	return &merging{s: s, base: base, ours: e.Base(), theirs: theirs}, err
}

// graft prepares what was found.
func (m *merging) graft(ctx context.Context, e *live.Edit, now int64) error {
	return e.Graft(ctx, m.theirs, m.changes, live.Graft{Exact: m.clean, KeepFull: !m.clean, Now: now})
}

// merge compares both sides with the fork's origin. Paths to skip, and those below
// them, stay as they are.
func (m *merging) merge(ctx context.Context, skip []string) error {
	m.changes, m.conflicts, m.collisions, m.clean = new(live.Steps), nil, nil, true
	src := m.s.src
	mine := make(map[string]tree.Change)
	m.above = make(map[string]bool)
	if err := tree.Diff(ctx, src, m.base, m.ours, tree.DiffOptions{}, func(c tree.Change) error {
		m.clean = false
		if step := live.StepOf(c); significant(&step) {
			p := c.Path.String()
			mine[p] = c
			for dir := path.Dir(p); dir != "." && !m.above[dir]; dir = path.Dir(dir) {
				m.above[dir] = true
			}
		}
		return m.list.Try(mergeCost + 2*int64(c.Path.Len()))
	}); err != nil {
		return err
	}
	if m.clean {
		changes, err := m.s.changes(ctx, m.ours, m.theirs, tree.DiffOptions{}, m.list)
		m.changes = changes
		return err
	}
	skipped := make(map[string]bool)
	for _, p := range skip {
		skipped[p] = true
	}
	added := make(map[string]bool) // directories that come with the fork
	return tree.Diff(ctx, src, m.base, m.theirs, tree.DiffOptions{}, func(c tree.Change) error {
		p := c.Path.String()
		step := live.StepOf(c)
		if trivial(&step) || under(p, skipped) {
			return nil
		}
		if len(p) >= unix.PathMax {
			return errs.New(errs.NameTooLong, "%s is too long a path to be merged", c.Path.Short())
		}
		if err := m.list.Try(mergeCost + int64(len(p))); err != nil {
			return err
		}
		if _, changed := mine[p]; changed && !significant(&step) {
			return nil // only touched in the fork
		}
		a, err := m.ours.Resolve(src, p)
		if err != nil {
			a = nil
		}
		if _, changed := mine[p]; changed && a != nil && c.B != nil {
			if same, err := tree.SameFile(src, a, c.B); err != nil || same {
				return err // the workspace has it already
			}
		}
		merged := false
		if m.conflict(p, c, a, mine) {
			both := collision{p, c.A, a, c.B, mine[p].What, c.What}
			if text := m.texts[p]; text != nil {
				c.B, merged = both.merged(text, m.now), true
			} else {
				m.conflicts, m.collisions = append(m.conflicts, p), append(m.collisions, both)
			}
		}
		if a == nil && c.B == nil {
			return nil
		}
		above, err := m.s.missingParents(m.ours, m.theirs, c.Path, added)
		if err != nil {
			return err
		}
		for _, dir := range above {
			m.changes.Add(dir)
		}
		if c.B != nil && c.B.IsDir() {
			if added[p] {
				return nil
			}
			added[p] = true
		}
		step = live.StepOf(tree.Change{Path: c.Path, A: a, B: c.B, What: c.What})
		if merged {
			step.With = c.B
		}
		m.changes.Add(step)
		return nil
	})
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
func trivial(c *live.Step) bool {
	return !significant(c) && c.ADir && c.BDir
}

// significant changes are more than another time: a file that was only touched,
// or brought back as it was, did not change.
func significant(c *live.Step) bool {
	return c.A == 0 || c.B == 0 || c.What&^(tree.Mtime|tree.Links) != 0
}

// conflict reports whether what the fork changed at c, to something that is not there
// already, was changed here too.
func (m *merging) conflict(p string, c tree.Change, a *tree.Inode, mine map[string]tree.Change) bool {
	if _, changed := mine[p]; changed {
		return a != nil || c.B != nil
	}
	if a != nil && a.IsDir() && c.B != nil && !c.B.IsDir() && m.above[p] {
		return true
	}
	// A directory above it may have gone, or become something else, here.
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if d, changed := mine[dir]; changed && c.B != nil && (d.B == nil || !d.B.IsDir()) {
			return true
		}
	}
	// The fork may have removed a directory that got something new here: then
	// only what the fork knew of goes.
	return false
}
