package hostdir

import (
	"maps"
	"os"
	"slices"

	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// makeSteps makes the steps of the plan.
func (pl *planner) makeSteps() error {
	steps, err := pl.merge.Steps()
	if err != nil {
		return err
	}

	differs := make(map[string]*tree.Path)
	for _, s := range steps {
		differs[s.Path.String()] = s.Path
	}
	if err := pl.findFiles(slices.Collect(maps.Keys(differs))); err != nil {
		return err
	}

	// A path at which the directory has the planned version may still need the planned time.
	conflicts := make(map[string]bool)
	for _, p := range pl.merge.Conflicts {
		conflicts[p] = true
	}

	all := maps.Clone(differs)
	for p, c := range pl.changes {
		if all[p] == nil && naming.NearestIn(p, conflicts) == "" {
			all[p] = c.Path
		}
	}

	for _, name := range slices.SortedFunc(maps.Keys(all), tree.ComparePaths) {
		p := all[name]
		if err := pl.tree.read(p); err != nil {
			return err
		}

		d := &decision{step: &step{original: pl.tree.entries[name], change: pl.changes[name]}, workspace: pl.changes[name]}
		d.change.Path = p

		if _, differ := differs[name]; differ {
			err = pl.planStep(d)
		} else {
			err = pl.planTime(d)
		}
		if err != nil {
			return err
		}

		if d.action != keep && !conflicts[name] {
			pl.res.Plan = append(pl.res.Plan, PlannedChange{Change: pl.plannedChange(d)})
		}
		pl.steps = append(pl.steps, d)
	}

	planMoves(pl.steps)

	return nil
}

// plannedChange returns the change of a step for ApplyResult.Plan: the workspace's change or, if the workspace did not
// change the path, the step's own change without the new content. Users of ApplyResult cannot read contents that a
// merge made.
func (pl *planner) plannedChange(d *decision) tree.Change {
	if d.workspace.Before != nil || d.workspace.After != nil {
		return d.workspace
	}
	c := d.change
	if c.After != nil {
		n := *c.After
		n.Content = nil
		c.After = &n
	}

	return c
}

// planStep decides the action for a path at which the directory differs from the plan.
func (pl *planner) planStep(d *decision) error {
	name := d.change.Path.String()
	dirNode, err := pl.tree.dirVersion(name)
	if err != nil {
		return err
	}
	f, err := pl.merge.File(name)
	if err != nil {
		return err
	}

	d.change.Before, d.change.After = dirNode, nil
	if dirNode != nil {
		before := *dirNode
		// The tree has one time for all names of a file: the time that was read last. This name may have an
		// older one.
		before.Mtime = timeOf(d.original.st.Mtim)
		d.change.Before = &before
	}

	switch {
	case f == nil:
		d.change.Differences, d.action = tree.PathRemoved, remove
		return nil
	case f.Node().IsDir():
		d.action = makeDir
		if dirNode != nil && dirNode.IsDir() {
			d.action = changeAttributes
		}

	default:
		d.file = pl.files[f]
		d.action = write

		// A file of another user is not new, but the directory's file: its inode number differs because a
		// refresh read it again.
		if n := f.Node(); d.file.before == nil && dirNode != nil && isForeign(n) && dirNode.Type() == n.Type() && dirNode.UID == n.UID && dirNode.GID == n.GID {
			d.file.before = dirNode
		}
		if d.file.path != nil && d.original.exists && d.original.id() == d.file.id {
			d.action = changeAttributes
		}
	}

	n := *f.Node()
	// The plan does not change the owner. The file on disk may still have a different one, see
	// hostTree.restoreOwner; it keeps that owner.
	if os.Geteuid() != 0 && dirNode != nil && d.original.exists && n.UID == dirNode.UID && n.GID == dirNode.GID {
		n.UID, n.GID = d.original.st.Uid, d.original.st.Gid
		d.change.Before.UID, d.change.Before.GID = n.UID, n.GID
	}
	if dirNode == nil {
		d.change.Differences = tree.PathAdded
	} else if err := pl.compareEntry(d, f, &n); err != nil {
		return err
	}
	if err := pl.planMtime(d, &n); err != nil {
		return err
	}

	// If nothing differs now, the file stays as it is: the workspace has only removed a hard link to it, or a
	// refresh has changed its inode number.
	if d.file != nil && d.action == changeAttributes && tree.SameAttrs(d.change.Before, &n) {
		n.Ino, d.action = dirNode.Ino, keep
	}
	d.change.After = &n

	return nil
}

// planMtime sets the time of a file that has the workspace's bytes. If the directory's file is kept, and the
// workspace did not change the file's time, the file keeps the time that it has in the directory. Otherwise it
// gets the workspace's time. The merge itself ignores times. Base and workspace are compared by inode, not by
// path, so that all names of a file get one time. If a refresh has changed the number of a file, the base's
// file at the path is compared.
func (pl *planner) planMtime(d *decision, n *tree.Inode) error {
	workspaceNode := d.workspace.After
	if workspaceNode == nil || workspaceNode.IsDir() {
		return nil
	}

	same, err := tree.SameData(pl.o.Source, n, workspaceNode)
	if err != nil || !same {
		return err
	}

	baseNode, err := pl.o.Base.Find(pl.o.Source, workspaceNode.Ino)
	if err != nil {
		return err
	}
	if baseNode == nil || baseNode.Btime != workspaceNode.Btime {
		baseNode = d.workspace.Before
	}

	n.Mtime = workspaceNode.Mtime
	if f := d.file; f.path != nil && baseNode != nil && f.before.Ino == baseNode.Ino && baseNode.Mtime == workspaceNode.Mtime {
		n.Mtime = f.before.Mtime
	}

	return nil
}

// compareEntry sets d.change.Differences for a path that exists in the directory and in the plan. n is the planned inode.
func (pl *planner) compareEntry(d *decision, f *threeway.File, n *tree.Inode) error {
	dirNode := d.change.Before
	same, err := tree.SameData(pl.o.Source, dirNode, n)
	if err != nil {
		return err
	}

	d.change.Differences &^= tree.PathAdded | tree.PathRemoved
	if !same || d.change.Differences == 0 {
		d.change.Differences |= tree.DataDiffers
	}

	// If the planned inode replaces another file with the same number, it gets the number 0, which no state
	// has.
	if kept := f.Present(); kept != nil && kept.Ino == dirNode.Ino && (d.file == nil || d.file.path == nil || d.file.id == d.original.id()) {
		n.Ino = dirNode.Ino
	} else if n.Ino == dirNode.Ino {
		n.Ino = 0
	}

	// A directory keeps its time, unless the workspace changed the time.
	if same && n.IsDir() && d.workspace.Before != nil && d.workspace.After != nil {
		if n.Mtime = dirNode.Mtime; d.workspace.Before.Mtime != d.workspace.After.Mtime {
			n.Mtime = d.workspace.After.Mtime
		}
	}

	return nil
}

// planTime plans the step of a path at which the directory has the planned version, but perhaps another time.
func (pl *planner) planTime(d *decision) error {
	dirNode, err := pl.tree.inodeAt(d.change.Path.String())
	if err != nil || dirNode == nil || d.change.After == nil || dirNode.IsDir() || d.change.After.IsDir() {
		return err
	}

	same, err := tree.SameData(pl.o.Source, dirNode, d.change.After)
	if err != nil {
		return err
	}
	if d.file = (&hostFile{}); same {
		d.file.path, d.file.id = d.change.Path, d.original.id()
	}

	return nil
}
