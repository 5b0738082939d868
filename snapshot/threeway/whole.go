package threeway

import (
	"context"
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// wholeDirs has the repository directories of Mercurial and jj, each with the command that brings commits from one
// repository into another. A merge takes such a directory from one side as a whole: a mixture of the files of both
// sides would be a repository that neither side had.
var wholeDirs = map[string]string{".hg": "hg pull", ".jj": "jj git import"}

// dirChanges are the changes of theirs in one directory that a merge takes as a whole.
type dirChanges struct {
	dir     string
	changes []tree.Change
}

// groupWholeDirs splits changes into the changes in directories that a merge takes as a whole, and the rest. The
// rest includes directories in which only times and link counts changed.
func groupWholeDirs(changes []tree.Change) (rest []tree.Change, all []dirChanges) {
	indexes := make(map[string]int)

	for _, c := range changes {
		dir, ok := WholeDir(c)
		i, known := indexes[dir]
		switch {
		case !ok:
			rest = append(rest, c)
			continue
		case !known:
			i = len(all)
			indexes[dir], all = i, append(all, dirChanges{dir: dir})
		}

		all[i].changes = append(all[i].changes, c)
	}

	all = slices.DeleteFunc(all, func(w dirChanges) bool {
		changed := slices.ContainsFunc(w.changes, func(c tree.Change) bool {
			return c.Before == nil || c.After == nil || c.Differences&^(tree.MtimeDiffers|tree.LinksDiffer) != 0
		})
		if !changed {
			rest = append(rest, w.changes...)
		}

		return !changed
	})

	return sortChanges(rest), all
}

// sortChanges puts changes in the order of tree.Diff.
func sortChanges(changes []tree.Change) []tree.Change {
	slices.SortStableFunc(changes, func(x, y tree.Change) int { return tree.ComparePaths(x.Path.String(), y.Path.String()) })
	return changes
}

// WholeDir returns the outermost directory at or above the path of a change that a merge takes as a whole.
func WholeDir(c tree.Change) (dir string, ok bool) {
	p := c.Path.String()
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' || wholeDirs[path.Base(p[:i])] == "" {
			continue
		}
		isDir := func(n *tree.Inode) bool { return n != nil && n.IsDir() }
		return p[:i], i < len(p) || isDir(c.Before) || isDir(c.After)
	}

	return "", false
}

// disputed reports whether a path of the directory in ours differs both from the base and from theirs. If no path
// does, the version of theirs can be taken as a whole. This is also true after a merge that was interrupted while
// it took the version of theirs.
func (w dirChanges) disputed(src *tree.Source, base, ours, theirs *tree.State) (bool, error) {
	oursPaths, err := pathsBelow(src, ours, w.dir)
	if err != nil {
		return false, err
	}

	basePaths, err := pathsBelow(src, base, w.dir)
	if err != nil {
		return false, err
	}

	for _, p := range append(oursPaths, basePaths...) {
		present, err := ours.InodeAt(src, p)
		if err != nil {
			return false, err
		}

		known := false
		for _, st := range []*tree.State{base, theirs} {
			n, err := st.InodeAt(src, p)
			if err == nil && !known {
				known, err = tree.SameFile(src, present, n)
			}
			if err != nil {
				return false, err
			}
		}

		if !known {
			return true, nil
		}
	}

	return false, nil
}

// pathsBelow returns the path of a directory of a state and all paths below it, or no paths if the state does not
// have the directory.
func pathsBelow(src *tree.Source, st *tree.State, dir string) (out []string, err error) {
	err = st.Walk(context.Background(), src, tree.WalkOptions{Paths: []string{dir}}, func(p *tree.Path, _ *tree.Inode) error {
		out = append(out, p.String())
		return nil
	})
	return out, err
}

// DecideHint returns a hint about paths in conflict. If one of the paths is a directory that a merge takes as a
// whole, it adds the command that brings commits into this repository.
func DecideHint(hint string, conflicts []string) string {
	for _, p := range conflicts {
		if command := wholeDirs[path.Base(p)]; command != "" {
			return hint + "; " + p + " is one entry, not merged by file: `" + command + "` brings the other side's commits"
		}
	}
	return hint
}

// splitWholeDirs removes from the changes of an interval the changes in directories that a merge takes as a whole.
// It adds the directories that both sides changed to interval.WholeDirs, and returns the changes of the
// directories that only theirs changed.
func (p *Plan) splitWholeDirs(interval *Interval) (apart []tree.Change, err error) {
	rest, all := groupWholeDirs(interval.Changes)
	for _, w := range all {
		disputed, err := w.disputed(p.Source, interval.Base, p.Ours, interval.Theirs)
		if err != nil {
			return nil, err
		}

		if disputed {
			interval.WholeDirs = append(interval.WholeDirs, w.dir)
		} else {
			apart = append(apart, w.changes...)
		}
	}

	interval.Changes = rest
	return apart, nil
}

// takeWhole plans the version of theirs for the paths of Interval.TakenPaths and, if the rule takes theirs, for
// the directories of Interval.WholeDirs.
func (t *intervalMerge) takeWhole(ctx context.Context) error {
	for _, filePath := range t.pairs.TakenPaths {
		if err := t.takeTheirsBelow(ctx, filePath); err != nil {
			return err
		}
	}

	for _, dir := range t.pairs.WholeDirs {
		if err := t.addConflict(dir, func() error { return t.takeTheirsBelow(ctx, dir) }); err != nil {
			return err
		}
	}
	return nil
}

// takeTheirsBelow plans the version of theirs for a directory and all paths below it.
func (t *intervalMerge) takeTheirsBelow(ctx context.Context, dir string) error {
	files := make(map[uint64]*file) // by their inode numbers in theirs
	return tree.Diff(ctx, t.source, t.plannedFiles.ours, t.pairs.Theirs, tree.DiffOptions{Paths: []string{dir}}, func(c tree.Change) error {
		p := c.Path.String()
		if c.After == nil {
			t.setFile(p, nil)
			return nil
		}

		if c.Before != nil && c.Before.IsDir() && c.After.IsDir() {
			f, err := t.fileAt(p)
			if err == nil && f != nil {
				t.setFile(p, f)
				t.stage(f, c.After, t.pairs.View)
			}

			return err
		}

		if free, err := t.planParents(p); err != nil || !free {
			return err
		}

		f := files[c.After.Ino]
		if f == nil {
			f = &file{node: c.After, view: t.pairs.View, theirIno: c.After.Ino}
			files[c.After.Ino] = f
		}

		t.setFile(p, f)

		return nil
	})
}
