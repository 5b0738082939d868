package snapshot

import (
	"context"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A merging is what a promotion is to do.
type merging struct {
	s                    *Store
	base, ours, theirs   *tree.State
	oursView, theirsView uint32

	steps     []live.Step
	conflicts []string
	clean     bool                   // the workspace did not change since the fork
	mine      map[string]tree.Change // significant changes of the workspace
	above     map[string]bool        // directories in which something changed here
	added     map[string]bool        // directories that come with the fork
	linked    []tree.Change          // of the fork, to files with several names

	collisions []collision                 // the conflicts
	texts      map[string]*content.Content // what merged, by path
	now        int64                       // the time of the merge
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
	return &merging{
		s: s, base: base, ours: e.Base(), theirs: theirs, oursView: f.parent, theirsView: f.view, now: time.Now().UnixNano(),
	}, err
}

// merge compares both sides with the fork's origin. Paths to skip, and those below
// them, stay as they are.
func (m *merging) merge(ctx context.Context, skip map[string]bool) error {
	m.steps, m.conflicts, m.collisions, m.linked = nil, nil, nil, nil
	if err := m.compareOurs(ctx); err != nil {
		return err
	}
	if m.clean {
		steps, err := m.s.changes(ctx, m.ours, m.theirs, tree.DiffOptions{}, m.list)
		m.steps = steps
		return err
	}
	m.added = make(map[string]bool)
	if err := tree.Diff(ctx, m.s.src, m.base, m.theirs, tree.DiffOptions{}, func(c tree.Change) error {
		p := c.Path.String()
		step := live.StepOf(c)
		if trivial(&step) || under(p, skip) {
			return nil
		}
		if len(p) >= unix.PathMax {
			return errs.New(errs.NameTooLong, "%s is too long a path to be merged", c.Path.Short())
		}
		if err := m.list.Try(mergeCost + int64(len(p))); err != nil {
			return err
		}
		return m.take(p, c)
	}); err != nil {
		return err
	}
	return m.mergeLinks(skip)
}

// compareOurs finds what the workspace changed.
func (m *merging) compareOurs(ctx context.Context) error {
	m.clean, m.mine, m.above = true, make(map[string]tree.Change), make(map[string]bool)
	return tree.Diff(ctx, m.s.src, m.base, m.ours, tree.DiffOptions{}, func(c tree.Change) error {
		m.clean = false
		if step := live.StepOf(c); significant(&step) {
			p := c.Path.String()
			m.mine[p] = c
			for dir := path.Dir(p); dir != "." && !m.above[dir]; dir = path.Dir(dir) {
				m.above[dir] = true
			}
		}
		return m.list.Try(mergeCost + 2*int64(c.Path.Len()))
	})
}

// take takes a change of the fork over, or finds that it is a conflict.
func (m *merging) take(p string, c tree.Change) error {
	a, err := m.ours.Resolve(m.s.src, p)
	if err != nil {
		a = nil
	}
	if hasLinks(c, a) {
		m.linked = append(m.linked, c)
		return nil
	}
	step := live.StepOf(c)
	mine, changed := m.mine[p]
	if changed && !significant(&step) {
		return nil // only touched in the fork
	}
	if changed && a != nil && c.B != nil {
		if same, err := tree.SameFile(m.s.src, a, c.B); err != nil || same {
			return err // the workspace has it already
		}
	}
	step = live.StepOf(tree.Change{Path: c.Path, A: a, B: c.B, What: c.What})
	if m.conflict(p, c, a) {
		both := collision{p, c.A, a, c.B, mine.What, c.What}
		if text := m.texts[p]; text != nil {
			step.With = both.merged(text, m.now)
		} else {
			m.conflicts, m.collisions = append(m.conflicts, p), append(m.collisions, both)
		}
	}
	if a == nil && c.B == nil {
		return nil
	}
	return m.add(p, step)
}

// add adds a step, and before it the directories that the workspace has lost.
func (m *merging) add(p string, step live.Step) error {
	above, err := m.s.missingParents(m.ours, m.theirs, step.Path, m.added)
	if err != nil {
		return err
	}
	m.steps = append(m.steps, above...)
	if step.BDir {
		if m.added[p] {
			return nil
		}
		m.added[p] = true
	}
	m.steps = append(m.steps, step)
	return nil
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
func (m *merging) conflict(p string, c tree.Change, a *tree.Inode) bool {
	if _, changed := m.mine[p]; changed {
		return a != nil || c.B != nil
	}
	if a != nil && a.IsDir() && c.B != nil && !c.B.IsDir() && m.above[p] {
		return true
	}
	// The fork may have removed a directory that got something new here: then
	// only what the fork knew of goes.
	return c.B != nil && m.lostAbove(p)
}

// lostAbove reports whether a directory above a path is gone here, or is something else.
func (m *merging) lostAbove(p string) bool {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if d, changed := m.mine[dir]; changed && (d.B == nil || !d.B.IsDir()) {
			return true
		}
	}
	return false
}
