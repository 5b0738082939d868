package threeway

import (
	"context"
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// wholeDirs are the directories of Mercurial and jj, and how commits get from one into another. They
// are one entry to a merge: files of two of them together are a repository that neither side had.
var wholeDirs = map[string]string{".hg": "hg pull", ".jj": "jj git import"}

// A Whole is a directory that is one entry to a merge, and what the other side changed in it.
type Whole struct {
	Dir     string
	Changes []tree.Change
}

// SplitWhole takes the changes in directories that are one entry to a merge out of others. Times are
// no changes.
func SplitWhole(changes []tree.Change) (rest []tree.Change, whole []Whole) {
	of := make(map[string]int)

	for _, c := range changes {
		dir, ok := WholeDir(c)
		i, known := of[dir]
		switch {
		case !ok:
			rest = append(rest, c)
			continue
		case !known:
			i = len(whole)
			of[dir], whole = i, append(whole, Whole{Dir: dir})
		}

		whole[i].Changes = append(whole[i].Changes, c)
	}

	whole = slices.DeleteFunc(whole, func(w Whole) bool {
		changed := slices.ContainsFunc(w.Changes, func(c tree.Change) bool {
			return c.Before == nil || c.After == nil || c.What&^(tree.Mtime|tree.Links) != 0
		})
		if !changed {
			rest = append(rest, w.Changes...)
		}

		return !changed
	})

	return SortChanges(rest), whole
}

// SortChanges puts changes in the order of tree.Diff.
func SortChanges(changes []tree.Change) []tree.Change {
	slices.SortStableFunc(changes, func(x, y tree.Change) int { return tree.ComparePaths(x.Path.String(), y.Path.String()) })
	return changes
}

// WholeDir returns the outermost directory that is one entry to a merge and has the path of a change.
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

// A Receiver is the side that a directory is merged into.
type Receiver interface {
	Below(dir string) ([]string, error) // a directory that is there, and all paths below it
	Has(p string, n *tree.Inode) (bool, error)
}

// Disputed reports whether the receiving side has something in the directory that is not as in the
// base and not as in theirs. Else theirs can be taken whole, also if that was interrupted before.
func (w Whole) Disputed(src *tree.Source, base, theirs *tree.State, ours Receiver) (bool, error) {
	here, err := ours.Below(w.Dir)
	if err != nil {
		return false, err
	}

	before, err := Below(src, base, w.Dir)
	if err != nil {
		return false, err
	}

	for _, p := range append(here, before...) {
		known := false

		for _, st := range []*tree.State{base, theirs} {
			n, err := st.At(src, p)
			if err == nil && !known {
				known, err = ours.Has(p, n)
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

// stateReceiver is a state that changes are merged into.
type stateReceiver struct {
	src *tree.Source
	st  *tree.State
}

func (r stateReceiver) Below(dir string) ([]string, error) { return Below(r.src, r.st, dir) }

// Below returns the path of a directory of a state and all paths below it, none if it is not there.
func Below(src *tree.Source, st *tree.State, dir string) (out []string, err error) {
	err = st.WalkFrom(context.Background(), src, dir, func(p *tree.Path, _ *tree.Inode) error {
		out = append(out, p.String())
		return nil
	})
	return out, err
}

func (r stateReceiver) Has(p string, n *tree.Inode) (bool, error) {
	is, err := r.st.At(r.src, p)
	if err != nil || is == nil || n == nil {
		return is == nil && n == nil, err
	}
	return tree.SameFile(r.src, is, n)
}

// DecideHint adds to the hint about paths in conflict how commits get into a directory that is one
// entry, if one of the paths is such a directory.
func DecideHint(hint string, conflicts []string) string {
	for _, p := range conflicts {
		if way := wholeDirs[path.Base(p)]; way != "" {
			return hint + "; " + p + " is one entry, not merged by file: `" + way + "` brings the other side's commits"
		}
	}
	return hint
}

// splitWhole takes the directories that both sides changed, and that are one entry to the merge, out
// of the changes of an interval. apart are the changes of those that theirs alone changed.
func (p *Plan) splitWhole(of *Interval) (apart []tree.Change, err error) {
	rest, whole := SplitWhole(of.Changes)
	for _, w := range whole {
		disputed, err := w.Disputed(p.Source, of.Base, of.Theirs, stateReceiver{p.Source, p.Ours})
		if err != nil {
			return nil, err
		}

		if disputed {
			of.Whole = append(of.Whole, w.Dir)
		} else {
			apart = append(apart, w.Changes...)
		}
	}

	of.Changes = rest
	return apart, nil
}

// takeWhole makes the directories of Interval.Whole what they are in theirs, if the rule says so.
func (t *intervalMerge) takeWhole(ctx context.Context) error {
	for _, dir := range t.Whole {
		if err := t.conflict(dir, func() error { return t.replace(ctx, dir) }); err != nil {
			return err
		}
	}
	return nil
}

// replace makes a directory what it is in theirs, with all in it.
func (t *intervalMerge) replace(ctx context.Context, dir string) error {
	files := make(map[uint64]*file) // by their inodes in theirs
	return tree.Diff(ctx, t.Source, t.Plan.Ours, t.Theirs, tree.DiffOptions{Paths: []string{dir}}, func(c tree.Change) error {
		p := c.Path.String()
		if c.After == nil {
			t.set(p, nil)
			return nil
		}

		if c.Before != nil && c.Before.IsDir() && c.After.IsDir() {
			f, err := t.get(p)
			if err == nil && f != nil {
				t.set(p, f)
				t.stage(f, c.After, t.Interval.View)
			}

			return err
		}

		if free, err := t.parents(p); err != nil || !free {
			return err
		}

		f := files[c.After.Ino]
		if f == nil {
			f = &file{node: c.After, view: t.Interval.View, ino: c.After.Ino}
			files[c.After.Ino] = f
		}

		t.set(p, f)

		return nil
	})
}
