package hostdir

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// planWhole decides about the directories that are one entry to a merge. Of their changes it returns
// those that are made: as they are if the directory did not change there, and those from what the
// directory has if it is replaced.
func (pl *planner) planWhole(whole []threeway.Whole) (changes []tree.Change, err error) {
	for _, w := range whole {
		if slices.ContainsFunc(w.Changes, func(c tree.Change) bool { return pl.o.ChoiceOf(c.Path.String()).Leave }) {
			continue // no part of it is applied without the others
		}
		pl.whole[w.Dir] = true
		disputed, err := w.Disputed(pl.o.Source, pl.o.Base, pl.o.Now, Receiver{pl})
		if err != nil {
			return nil, err
		}

		if !disputed {
			changes = append(changes, w.Changes...)
			continue
		}

		p, err := tree.ParsePath(w.Dir)
		if err != nil {
			return nil, err
		}

		c, err := pl.changeTo(p)
		if err != nil {
			return nil, err
		}

		d := &decision{step: &step{change: c}}
		if pl.choose(d) || !pl.conflict(d, false) {
			continue
		}

		all, err := pl.replaceAll(w)
		if err != nil {
			return nil, err
		}
		changes = append(changes, all...)
	}
	return changes, nil
}

// replaceAll returns a change for each path of a directory, here or in the workspace, to what the
// workspace has.
func (pl *planner) replaceAll(w threeway.Whole) (all []tree.Change, err error) {
	paths, err := Receiver{pl}.Below(w.Dir)
	if err != nil {
		return nil, err
	}

	for _, st := range []*tree.State{pl.o.Base, pl.o.Now} {
		more, err := threeway.Below(pl.o.Source, st, w.Dir)
		if err != nil {
			return nil, err
		}
		paths = append(paths, more...)
	}

	slices.SortFunc(paths, tree.ComparePaths)

	for _, name := range slices.Compact(paths) {
		p, err := tree.ParsePath(name)
		if err != nil {
			return nil, err
		}

		c, err := pl.changeTo(p)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}

	return all, nil
}

// planIn plans a path of a directory that is taken whole.
func (pl *planner) planIn(d *decision) error {
	conflict, err := pl.judge(d)
	if err != nil {
		return err
	}

	p := d.change.Path
	if conflict && d.seen.unreachable != nil && !errors.Is(d.seen.unreachable, unix.ENOENT) {
		pl.blocked = append(pl.blocked, p.Short())
	}

	if conflict {
		d.replace()
		d.forced = d.text == nil // a merge of git has the changes of both sides
	}

	return nil
}

// planGit takes the changes of git directories out of those of files.
func (pl *planner) planGit(changes []tree.Change) ([]tree.Change, error) {
	if pl.o.Git == nil {
		return changes, nil
	}
	var err error
	if pl.repos, err = pl.o.Git.Plan(pl.ctx, RepositorySides{&pl.o, changes, Receiver{pl}}); err != nil {
		return nil, err
	}

	pl.res.Git, pl.res.Conflicts = pl.repos.Said, pl.repos.Conflicts
	pl.refused = len(pl.repos.Conflicts) > 0
	return pl.takeFiles(pl.repos.Changes)
}

// takeFiles adds to the changes the files that become what the workspace has, or what a merge of git has
// made, with directories above them that are not there.
func (pl *planner) takeFiles(changes []tree.Change) ([]tree.Change, error) {
	known := make(map[string]bool)
	for _, c := range changes {
		known[c.Path.String()] = true
	}

	for _, name := range slices.Concat(pl.repos.Take, slices.Collect(maps.Keys(pl.repos.Merged))) {
		p, err := tree.ParsePath(name)
		if err != nil {
			return nil, err
		}

		for ; p != nil && !pl.whole[p.String()]; p = p.Dir {
			c, err := pl.changeTo(p)
			if err != nil {
				return nil, err
			}

			at, aerr := pl.host.look(p)
			file, isMerged := pl.repos.Merged[p.String()]
			if isMerged {
				if c.After, err = pl.mergedFile(p, file, c.After); err != nil {
					return nil, err
				}
				changes = slices.DeleteFunc(changes, func(x tree.Change) bool { return x.Path.String() == p.String() })
			} else if c.Before == nil && c.After == nil || (c.After == nil || c.After.IsDir()) && aerr == nil && at.isDir() {
				break
			}

			if pl.whole[p.String()] = true; isMerged || !known[p.String()] {
				changes = append(changes, c)
			}
		}
	}

	return threeway.SortChanges(changes), nil
}

// mergedFile returns the file that a merge makes at a path: with the attributes of the directory's file
// or, for a new file, with the owner of the directory above. there is the workspace's file, nil for none.
func (pl *planner) mergedFile(p *tree.Path, file MergedFile, there *tree.Inode) (*tree.Inode, error) {
	if file.Data == nil {
		return nil, nil
	}
	n := &tree.Inode{Ino: math.MaxUint64 - uint64(len(pl.whole)), Mode: unix.S_IFREG | 0o644, Nlink: 1, Mtime: time.Now().UnixNano()}
	if there != nil {
		n.Ino = there.Ino
	}

	at, err := pl.host.look(p)
	if err != nil {
		return nil, err
	}

	if isFile := at.exists && at.st.Mode&unix.S_IFMT == unix.S_IFREG; isFile {
		n.Mode, n.UID, n.GID = at.st.Mode, at.st.Uid, at.st.Gid
		if n.Xattrs, err = pl.host.xattrs(p); err != nil && !errors.Is(err, unix.EACCES) {
			return nil, err
		}
	} else if above, err := pl.host.look(p.Dir); err == nil && above.exists {
		n.UID, n.GID = above.st.Uid, above.st.Gid
	}

	n.Mode = threeway.Executable(n.Mode, file.Exec)
	return n, nil
}

// changeTo is the change of a path from what the base has, or the directory alone, to what the
// workspace has.
func (pl *planner) changeTo(p *tree.Path) (c tree.Change, err error) {
	c = tree.Change{Path: p, What: tree.Data}
	if c.Before, err = pl.o.Base.At(pl.o.Source, p.String()); err != nil {
		return c, err
	}
	if c.After, err = pl.o.Now.At(pl.o.Source, p.String()); err != nil || c.Before != nil || c.After != nil {
		return c, err
	}

	at, err := pl.host.look(p)
	if at.exists {
		c.Before = &tree.Inode{Ino: at.st.Ino, Mode: at.st.Mode, Nlink: 1}
	}

	return c, err
}
