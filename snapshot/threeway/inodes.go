package threeway

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// fileOf returns the file of the plan that stands for a file of theirs, and makes it if there is none.
func (t *taking) fileOf(x *theirFile) (*file, error) {
	if x.file != nil {
		return x.file, nil
	}
	if x.goesOn != 0 {
		b, err := t.baseFile(x.goesOn)
		if err == nil {
			x.file, err = t.oursOf(b)
		}
		if err != nil || x.file != nil {
			return x.file, err
		}
	}
	x.file = &file{node: x.node, view: t.Interval.View, ino: x.node.Ino}
	return x.file, nil
}

// inodes merges the attributes and contents of the files of theirs.
func (t *taking) inodes(ctx context.Context) error {
	for _, x := range t.files {
		if err := turns.Yield(ctx); err != nil {
			return err
		}
		b, p := x.copied, x.path
		var ours *file
		var err error
		if x.goesOn != 0 {
			p = x.paths[0]
			if b, err = t.baseFile(x.goesOn); err == nil {
				ours, err = t.oursOf(b)
			}
		} else if b != nil {
			ours, err = t.get(p)
		}
		if err != nil {
			return err
		}
		if b == nil || ours == nil || ours.node.IsDir() {
			continue
		}
		into := ours
		if x.goesOn == 0 {
			if into = x.file; into == nil {
				continue // the name stays
			}
			if own, err := t.ownOf(ours); err != nil || own != b.node.Ino && into != ours {
				if err != nil {
					return err
				}
				continue
			}
		}
		names, err := t.namesAfter(into)
		if err != nil {
			return err
		}
		if len(names) == 0 || slices.ContainsFunc(names, t.stays) {
			continue
		}
		if err := t.inode(p, names, into, ours, b.node, x.node); err != nil {
			return err
		}
	}
	return t.copies()
}

// copies makes the changes of theirs to files of the base in the copies that ours has of these files.
func (t *taking) copies() error {
	seen := make(map[*file]bool)
	for _, c := range t.changes {
		p := c.Path.String()
		x := t.theirs[p]
		if x == nil || c.Before == nil || x.goesOn != c.Before.Ino {
			continue
		}
		f, err := t.get(p)
		if err != nil {
			return err
		}
		if f == nil || f.node.IsDir() || seen[f] {
			continue
		}
		own, err := t.ownOf(f)
		if err != nil {
			return err
		}
		if own != 0 {
			continue
		}
		all, err := t.namesOf(f, 0)
		if err != nil {
			return err
		}
		slices.SortFunc(all, tree.ComparePaths)
		b, err := t.firstGone(all, func(*baseFile) (bool, error) { return true, nil })
		if err != nil {
			return err
		}
		names, err := t.namesAfter(f)
		if err != nil {
			return err
		}
		if b.node.Ino != c.Before.Ino || len(names) == 0 || slices.ContainsFunc(names, t.stays) {
			continue
		}
		seen[f] = true
		if err := t.inode(p, names, f, f, c.Before, x.node); err != nil {
			return err
		}
	}
	return nil
}

// inode makes the changes from base to theirs in a file of ours.
func (t *taking) inode(p string, names []string, into, ours *file, base, theirs *tree.Inode) error {
	n, view, lines, ok, err := t.merged(p, ours, base, theirs)
	if err != nil {
		return err
	}
	if !ok {
		take := func() error { t.stage(into, theirs, t.Interval.View); return nil }
		for _, name := range names {
			if err := t.conflict(name, take); err != nil {
				return err
			}
		}
		return nil
	}
	if n == nil {
		if into == ours {
			return nil
		}
		n, view = ours.node, ours.view
	}
	t.stage(into, n, view)
	if lines {
		t.texts = append(t.texts, text{p, into, base, ours.node, theirs, t.Interval.View})
	}
	return nil
}

// stage notes the new inode of a file.
func (t *taking) stage(f *file, n *tree.Inode, view uint32) {
	s := staged{f, n, view}
	if t.done {
		s.make()
	} else {
		t.staged = append(t.staged, s)
	}
}

func (s staged) make() { s.file.node, s.file.view, s.file.changed = s.node, s.view, true }

// merged returns the inode of a file with the changes from base to theirs, nil if there are none.
// lines reports that its lines have to be merged, or that a decision about p is to be used. ok is
// false if the file is in conflict.
func (t *taking) merged(p string, f *file, base, theirs *tree.Inode) (n *tree.Inode, view uint32, lines, ok bool, err error) {
	ours := f.node
	_, decided := t.Decided[p]
	if ours == base && !decided {
		return theirs, t.Interval.View, false, true, nil
	}
	m, err := MergeFile(base, ours, theirs, func(x, y *tree.Inode) (bool, error) { return tree.SameData(t.Source, x, y) })
	if err != nil {
		return nil, 0, false, false, err
	}
	if decided && !m.Lines {
		m.Lines, m.OK = true, m.OK && mergeable(base, ours, theirs)
	}
	if !m.Changed && !m.Lines {
		return nil, 0, false, m.OK, nil
	}
	if view = f.view; m.Taken {
		view = t.Interval.View
	}
	return &m.Node, view, m.Lines, m.OK, nil
}
