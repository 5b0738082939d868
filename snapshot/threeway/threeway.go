// Package threeway merges two trees that began from the same base: a fork and the
// workspace it was forked from. Names, kinds, contents, attributes and hard links are
// merged; text that changed on both sides is merged by lines.
package threeway

import (
	"context"
	"path"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/steps"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Merge brings the changes from Base to Theirs into Ours.
type Merge struct {
	Source               *tree.Source
	Objects              content.ObjectStore // where merged texts are stored
	Base, Ours, Theirs   *tree.State
	OursView, TheirsView uint32
	List                 *budget.Charge // of all that differs
	Now                  int64          // the time of the merge, in ns

	Steps     []live.Step // what has to be done to Ours
	Conflicts []string    // paths
	Clean     bool        // Ours did not change since Base
	Stored    bool        // merged files were stored in Objects, which the caller makes durable

	mine     map[string]tree.Change // significant changes of ours
	above    map[string]bool        // directories in which something changed in ours
	added    map[string]bool        // directories that come with theirs
	replaced map[string]bool        // where a directory gives way to a file, or the reverse
	linked   []tree.Change          // of theirs, to files with several names

	collisions []collision                 // the conflicts
	texts      map[string]*content.Content // merged contents, by path
}

// cost is the memory of a change while it is merged, in bytes, beside its path.
const cost = 700

// Run compares both sides with the base. Paths in skip, and those below them, stay as
// they are in ours.
func (m *Merge) Run(ctx context.Context, skip map[string]bool) error {
	m.Steps, m.Conflicts, m.collisions, m.linked = nil, nil, nil, nil
	if err := m.compareOurs(ctx); err != nil {
		return err
	}
	if m.Clean {
		list, err := steps.Between(ctx, m.Source, m.Ours, m.Theirs, tree.DiffOptions{}, m.List)
		m.Steps = list
		return err
	}
	m.added, m.replaced = make(map[string]bool), make(map[string]bool)
	if err := tree.Diff(ctx, m.Source, m.Base, m.Theirs, tree.DiffOptions{}, func(c tree.Change) error {
		p := c.Path.String()
		step := live.StepOf(c)
		if steps.Trivial(&step) || Under(p, skip) {
			return nil
		}
		if len(p) >= unix.PathMax {
			return errs.New(errs.NameTooLong, "%s is too long a path to be merged", c.Path.Short())
		}
		if err := m.List.Try(cost + int64(len(p))); err != nil {
			return err
		}
		return m.take(ctx, p, c)
	}); err != nil {
		return err
	}
	if err := m.mergeLinks(skip); err != nil {
		return err
	}
	m.settleGit()
	return nil
}

// compareOurs finds what the workspace changed.
func (m *Merge) compareOurs(ctx context.Context) error {
	m.Clean, m.mine, m.above = true, make(map[string]tree.Change), make(map[string]bool)
	return tree.Diff(ctx, m.Source, m.Base, m.Ours, tree.DiffOptions{}, func(c tree.Change) error {
		m.Clean = false
		if step := live.StepOf(c); steps.Significant(&step) {
			p := c.Path.String()
			m.mine[p] = c
			for dir := path.Dir(p); dir != "." && !m.above[dir]; dir = path.Dir(dir) {
				m.above[dir] = true
			}
		}
		return m.List.Try(cost + 2*int64(c.Path.Len()))
	})
}

// take takes a change of the fork over, or finds that it is a conflict.
func (m *Merge) take(ctx context.Context, p string, c tree.Change) error {
	a, err := m.Ours.Resolve(m.Source, p)
	if err != nil {
		a = nil
	}
	if hasLinks(c, a) {
		m.linked = append(m.linked, c)
		return nil
	}
	step := live.StepOf(c)
	mine, changed := m.mine[p]
	if changed && !steps.Significant(&step) {
		return nil // only touched in the fork
	}
	if changed && a != nil && c.B != nil {
		if same, err := tree.SameFile(m.Source, a, c.B); err != nil || same {
			return err // the workspace has it already
		}
	}
	step = live.StepOf(tree.Change{Path: c.Path, A: a, B: c.B, What: c.What})
	if m.conflict(p, c, a) {
		both := collision{p, c.A, a, c.B, mine.What, c.What}
		decided, drop, with, err := m.gitChange(ctx, both)
		if err != nil || drop {
			return err
		}
		if text := m.texts[p]; text != nil {
			with = both.merged(text, m.Now)
		}
		if step.With = with; with == nil && !decided {
			m.Conflicts, m.collisions = append(m.Conflicts, p), append(m.collisions, both)
		}
	}
	if a == nil && c.B == nil {
		return nil
	}
	if a != nil && c.B != nil && a.IsDir() != c.B.IsDir() {
		m.replaced[p] = true
	}
	return m.add(p, step)
}

// add adds a step, and before it the directories that the workspace has lost.
func (m *Merge) add(p string, step live.Step) error {
	above, err := steps.MissingParents(m.Source, m.Ours, m.Theirs, step.Path, m.added)
	if err != nil {
		return err
	}
	m.Steps = append(m.Steps, above...)
	if step.BDir {
		if m.added[p] {
			return nil
		}
		m.added[p] = true
	}
	m.Steps = append(m.Steps, step)
	return nil
}

// Under reports whether a path, or a directory above it, is in the set.
func Under(p string, set map[string]bool) bool {
	for ; p != "." && p != "/" && p != ""; p = path.Dir(p) {
		if set[p] {
			return true
		}
	}
	return false
}

// conflict reports whether what the fork changed at c, to something that is not there
// already, was changed here too.
func (m *Merge) conflict(p string, c tree.Change, a *tree.Inode) bool {
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
func (m *Merge) lostAbove(p string) bool {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if d, changed := m.mine[dir]; changed && (d.B == nil || !d.B.IsDir()) {
			return true
		}
	}
	return false
}
