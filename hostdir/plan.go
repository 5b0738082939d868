package hostdir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A planner decides what an apply does. It changes nothing.
type planner struct {
	ctx  context.Context
	o    ApplyOptions
	host *host
	res  *Applied

	steps    []*decision // in the order of paths, a directory before its entries
	byPath   map[string]*decision
	excluded map[string]bool // paths that stay as they are, with all below them
	whole    map[string]bool // directories of Mercurial and jj that are taken as a whole
	blocked  []string
	refused  bool // a conflict is not decided
	files    hostFiles
	lost     map[fileKind][]*tree.Inode // see findLost
	repos    Repositories

	mergedBytes int64 // of merged texts
}

// A decision is a step, and why it is so.
type decision struct {
	*step
	choice     Choice
	here, base *tree.Inode // the file of seen and its version in the base, nil if its attributes were not merged
	marked     []byte      // the content with conflict markers
	sameFile   bool        // the path has its file already
	forced     bool        // it replaces what the directory changed
}

// planAll plans the changes from the base to the workspace.
func (pl *planner) planAll() error {
	var changes, top []tree.Change
	if err := tree.Diff(pl.ctx, pl.o.Source, pl.o.Base, pl.o.Now, tree.DiffOptions{}, func(c tree.Change) error {
		if c.Path == nil {
			top = append(top, c)
		} else {
			changes = append(changes, c)
		}
		return nil
	}); err != nil {
		return err
	}

	left, err := pl.leftOut(changes)
	if err != nil {
		return err
	}

	pl.res.LeftOut = topmost(left, changes)
	changes = slices.DeleteFunc(changes, func(c tree.Change) bool { return left[c.Path.String()] })

	changes, whole := threeway.SplitWhole(changes)
	if changes, err = pl.planGit(changes); err != nil {
		return err
	}

	apart, err := pl.planWhole(whole)
	if err != nil {
		return err
	}

	changes = threeway.SortChanges(append(changes, apart...))
	if err := pl.findFiles(changes); err != nil {
		return err
	}

	for _, c := range slices.Concat(top, changes) {
		if err := pl.plan(c); err != nil {
			return err
		}
	}

	return pl.planReplaced()
}

// result has Applied say what is planned. It fails if that is not to be done.
func (pl *planner) result() error {
	res := pl.res
	var paths []graft.PathChange

	for _, d := range pl.steps {
		d.was, d.all = pl.baseOf(d), d.forced
		if d.action == keep {
			continue
		}
		if !d.forced {
			res.Plan = append(res.Plan, Planned{Change: d.change})
		}

		paths = append(paths, graft.PathChangeOf(graft.StepOf(d.change)))
	}

	if len(pl.blocked) > 0 {
		res.Conflicts = pl.blocked
		return fmt.Errorf("%w: %w", ErrConflict, errBlocked)
	}
	if pl.refused {
		return ErrConflict
	}

	for _, d := range pl.steps {
		if d.action != keep {
			res.count(d.step)
		}
	}

	slices.SortStableFunc(paths, func(x, y graft.PathChange) int { return inGitOrder(x.Path) - inGitOrder(y.Path) })
	res.Paths, res.Changed = append(res.Paths, paths...), len(paths)

	return nil
}

// baseOf returns what the base has of the file of a step, nil for a new file.
func (pl *planner) baseOf(d *decision) *tree.Inode {
	n, was := d.change.After, d.change.Before
	if n == nil {
		return nil
	}
	if d.here != nil {
		return d.here
	}

	if f := pl.files[n.Ino]; f != nil && !n.IsDir() {
		if was = f.was; was == nil && d.sameFile {
			was = d.change.Before // other numbers, after a refresh
		}
	}
	if was == nil || was.Type() != n.Type() {
		return nil
	}

	return was
}

// plan plans one path. It is called for a directory before its entries.
func (pl *planner) plan(c tree.Change) error {
	if inSet(c.Path, pl.excluded) {
		return nil
	}

	if c.After != nil && c.After.Type() == unix.S_IFSOCK {
		pl.res.skip(c.Path, "sockets are not applied") // one is useless without its program
		return nil
	}

	at, err := pl.host.look(c.Path)
	if err != nil {
		return err
	}

	d := &decision{step: &step{change: c, seen: at, text: pl.repos.Merged[c.Path.String()].Data}}
	if inSet(c.Path, pl.whole) {
		if err := pl.planIn(d); err != nil {
			return err
		}

		pl.add(d)
		return nil
	}

	if only := minor(c) && c.What&tree.Links == 0; !only && pl.choose(d) {
		return nil
	}

	conflict, err := pl.judge(d)
	if err != nil || conflict && minor(c) {
		return err
	}

	if conflict && !pl.conflict(d, at.unreachable != nil && !errors.Is(at.unreachable, unix.ENOENT)) {
		pl.excluded[c.Path.String()] = true
		return nil
	}

	pl.add(d)

	return nil
}

func (pl *planner) add(d *decision) {
	pl.steps = append(pl.steps, d)
	pl.byPath[d.change.Path.String()] = d
}

// minor reports whether only the time and other names of a file differ.
func minor(c tree.Change) bool {
	return c.Before != nil && c.After != nil && c.What&^(tree.Mtime|tree.Links) == 0 &&
		(c.What&tree.Links == 0 || c.Before.Ino == c.After.Ino || len(c.Before.Links) < 2 && len(c.After.Links) < 2)
}

// judge decides what is done at a path, and reports a conflict.
func (pl *planner) judge(d *decision) (conflict bool, err error) {
	c, at := d.change, d.seen
	if at.unreachable != nil {
		// The path above it does not exist, or is not a directory.
		if c.After == nil {
			return false, nil
		}
		above := pl.byPath[c.Path.Dir.String()]
		if above == nil || above.change.After == nil || !above.change.After.IsDir() {
			return true, nil
		}

		d.action = actionFor(c)

		return false, nil
	}

	if c.Before != nil && c.Before.IsDir() && c.After != nil && c.After.IsDir() && at.isDir() {
		d.sameFile = true
		return pl.judgeAttrs(d, c.Before)
	}

	if f := pl.files.of(d.step); f != nil && f.at != nil && at.exists && at.id() == f.id {
		d.sameFile = true
		return pl.judgeAttrs(d, cmp.Or(f.was, c.Before))
	}

	if is, err := pl.isApplied(d); err != nil || is {
		if is && pl.files.of(d.step) != nil {
			d.action = write // another file with the same bytes
		}
		return false, err
	}

	if c.Before != nil && c.After != nil && c.Before.IsDir() != c.After.IsDir() && !at.exists {
		d.action = actionFor(c) // an interrupted run removed what was there
		return false, nil
	}

	files := pl.areFiles(d) && !minor(c)
	if !files || !pl.goesOn(d) {
		same, err := pl.host.same(pl.o.Source, c.Path, at, c.Before)
		if err != nil {
			return false, err
		}

		if same {
			d.action = actionFor(c)
			return false, nil
		}
	}

	switch {
	case files:
		return pl.mergeFile(d)
	case c.Before != nil:
		return true, nil
	}

	clean, err := pl.mergeText(d)
	return !clean, err
}

// planReplaced checks the directories that a file replaces: everything in them must be removed by a
// step.
func (pl *planner) planReplaced() error {
	removed := make(map[string]bool)
	for _, d := range pl.steps {
		removed[d.change.Path.String()] = d.action == remove
	}

	steps := pl.steps
	pl.steps = nil
	for _, d := range steps {
		if inSet(d.change.Path, pl.excluded) {
			continue
		}

		if d.action == write && d.seen.isDir() {
			below, err := pl.host.below(d.change.Path)
			if err != nil {
				return err
			}

			if slices.ContainsFunc(below, func(p *tree.Path) bool { return !removed[p.String()] }) && !pl.conflict(d, true) {
				pl.excluded[d.change.Path.String()] = true
				continue
			}
		}

		pl.steps = append(pl.steps, d)
	}

	return nil
}

// inSet reports whether a path, or a directory above it, is in a set.
func inSet(p *tree.Path, set map[string]bool) bool {
	if len(set) == 0 {
		return false
	}

	for ; p != nil; p = p.Dir {
		if set[p.String()] {
			return true
		}
	}

	return false
}
