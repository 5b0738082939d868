package hostdir

import (
	"errors"
	"maps"
	"os"
	"slices"

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
		if all[p] == nil && !inSet(c.Path, conflicts) {
			all[p] = c.Path
		}
	}

	for _, name := range slices.SortedFunc(maps.Keys(all), tree.ComparePaths) {
		p := all[name]
		if err := pl.tree.read(p); err != nil {
			return err
		}

		d := &decision{step: &step{seen: pl.tree.places[name], change: pl.changes[name]}, workspace: pl.changes[name]}
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
			pl.res.Plan = append(pl.res.Plan, Planned{Change: pl.changeAt(d)})
		}
		pl.steps = append(pl.steps, d)
	}

	moveDirs(pl.steps)

	return nil
}

// changeAt returns the change of a step for Applied.Plan. The inode of the directory's plan has no Content in it,
// because users of Applied cannot read contents that a merge made.
func (pl *planner) changeAt(d *decision) tree.Change {
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
	has, err := pl.tree.here(name)
	if err != nil {
		return err
	}
	f, err := pl.merge.File(name)
	if err != nil {
		return err
	}

	d.change.Before, d.change.After = has, nil
	if has != nil {
		was := *has
		was.Mtime = timeOf(d.seen.st.Mtim) // a tree has one time for all names of a file: that of the name read last
		d.change.Before = &was
	}

	switch {
	case f == nil:
		d.change.Differences, d.action = tree.PathRemoved, remove
		return nil
	case f.Node().IsDir():
		d.action = makeDir
		if has != nil && has.IsDir() {
			d.action = attributes
		}

	default:
		d.file = pl.files[f]
		d.action = write

		// A file of another user is not a new file: its inode number differs because a refresh read it again.
		if n := f.Node(); d.file.was == nil && has != nil && isForeign(n) && has.Type() == n.Type() && has.UID == n.UID && has.GID == n.GID {
			d.file.was = has
		}
		if d.file.at != nil && d.seen.exists && d.seen.id() == d.file.id {
			d.action = attributes
		}
	}

	n := *f.Node()
	if os.Geteuid() != 0 && has != nil && d.seen.exists && n.UID == has.UID && n.GID == has.GID { // see hostTree.keepOwner
		n.UID, n.GID = d.seen.st.Uid, d.seen.st.Gid
		d.change.Before.UID, d.change.Before.GID = n.UID, n.GID
	}
	if has == nil {
		d.change.Differences = tree.PathAdded
	} else if err := pl.compare(d, f, &n); err != nil {
		return err
	}
	if err := pl.planMtime(d, &n); err != nil {
		return err
	}

	// If the file stays, the workspace may have removed a hard link to it, and a refresh may have changed its
	// number.
	if d.file != nil && d.action == attributes && has.Mode == n.Mode && has.UID == n.UID && has.GID == n.GID && tree.SameXattrs(has, &n) {
		n.Ino, d.action = has.Ino, keep
	}
	d.change.After = &n

	return nil
}

// planMtime sets the time of a file that has the workspace's bytes: the directory's time if the directory's file
// is kept and the workspace did not change its time, else the workspace's time. The merge itself ignores times.
// Base and workspace are compared by inode, not by path, so that all names of a file get one time. If a refresh
// has changed the number of a file, the base's file at the path is compared.
func (pl *planner) planMtime(d *decision, n *tree.Inode) error {
	made := d.workspace.After
	if made == nil || made.IsDir() {
		return nil
	}

	same, err := tree.SameData(pl.o.Source, n, made)
	if err != nil || !same {
		return err
	}

	was, err := pl.o.Base.Get(pl.o.Source, made.Ino)
	if err != nil && !errors.Is(err, tree.ErrNoInode) {
		return err
	}
	if was == nil || was.Btime != made.Btime {
		was = d.workspace.Before
	}

	n.Mtime = made.Mtime
	if f := d.file; f.at != nil && was != nil && f.was.Ino == was.Ino && was.Mtime == made.Mtime {
		n.Mtime = f.was.Mtime
	}

	return nil
}

// compare sets d.change.Differences for a path that exists in the directory and in the plan. n is the planned inode.
func (pl *planner) compare(d *decision, f *threeway.File, n *tree.Inode) error {
	has := d.change.Before
	same, err := tree.SameData(pl.o.Source, has, n)
	if err != nil {
		return err
	}

	d.change.Differences &^= tree.PathAdded | tree.PathRemoved
	if !same || d.change.Differences == 0 {
		d.change.Differences |= tree.DataDiffers
	}

	// An inode that replaces another file gets a number that occurs in no state.
	if was := f.Present(); was != nil && was.Ino == has.Ino && (d.file == nil || d.file.at == nil || d.file.id == d.seen.id()) {
		n.Ino = has.Ino
	} else if n.Ino == has.Ino {
		n.Ino = 0
	}

	// A directory stays at its path.
	if same && n.IsDir() && d.workspace.Before != nil && d.workspace.After != nil {
		if n.Mtime = has.Mtime; d.workspace.Before.Mtime != d.workspace.After.Mtime {
			n.Mtime = d.workspace.After.Mtime
		}
	}

	return nil
}

// planTime plans a path at which the directory has the planned version, but perhaps another time.
func (pl *planner) planTime(d *decision) error {
	has, err := pl.tree.at(d.change.Path.String())
	if err != nil || has == nil || d.change.After == nil || has.IsDir() || d.change.After.IsDir() {
		return err
	}

	same, err := tree.SameData(pl.o.Source, has, d.change.After)
	if err != nil {
		return err
	}
	if d.file = (&hostFile{}); same {
		d.file.at, d.file.id = d.change.Path, d.seen.id()
	}

	return nil
}
