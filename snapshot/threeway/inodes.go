package threeway

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// plannedFile returns the file of the plan for a file of theirs. If there is none, it makes a new file.
func (t *intervalMerge) plannedFile(x *theirFile) (*file, error) {
	if x.file != nil {
		return x.file, nil
	}

	if x.baseIno != 0 {
		b, err := t.pairs.baseFile(x.baseIno)
		if err != nil {
			return nil, err
		}
		if x.file, err = t.pairs.oursOf(b); err != nil || x.file != nil {
			return x.file, err
		}
	}

	x.file = &file{node: x.node, view: t.pairs.View, theirIno: x.node.Ino}
	return x.file, nil
}

// mergeInodes merges the attributes and contents of the files of theirs.
func (t *intervalMerge) mergeInodes(ctx context.Context) error {
	for _, x := range t.pairs.changedFiles {
		if err := turns.Yield(ctx); err != nil {
			return err
		}

		b, ours, p, err := t.sidesOf(x)
		if err != nil {
			return err
		}
		if b == nil || ours == nil || ours.node.IsDir() {
			continue
		}

		into := ours

		if x.baseIno == 0 {
			if into = x.file; into == nil {
				continue // the plan did not take this name from theirs, so it has no such file
			}

			if baseIno, err := t.pairs.baseInoOf(ours); err != nil || baseIno != b.node.Ino && into != ours {
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
		if len(names) == 0 || slices.ContainsFunc(names, t.keepsOurs) {
			continue
		}
		if err := t.mergeInode(p, names, into, ours, b.node, x.node); err != nil {
			return err
		}
	}
	return t.mergeCopies()
}

// sidesOf returns the file of the base and the file of ours to merge with a file of theirs. For a new file of theirs
// they are the files at the path of x.copiedFrom. p is the path under which a user may have decided about the file.
func (t *intervalMerge) sidesOf(x *theirFile) (b *baseFile, ours *file, p string, err error) {
	if x.baseIno != 0 {
		if b, err = t.pairs.baseFile(x.baseIno); err != nil {
			return nil, nil, "", err
		}

		ours, err = t.pairs.oursOf(b)
		return b, ours, x.paths[0], err
	}
	if x.copiedFrom == nil {
		return nil, nil, "", nil
	}

	ours, err = t.fileAt(x.path)
	return x.copiedFrom, ours, x.path, err
}

// mergeCopies merges the changes of theirs to a file of the base into copies of the file in ours. A copy is a new
// file at one of the file's names.
func (t *intervalMerge) mergeCopies() error {
	seen := make(map[*file]bool)

	for _, c := range t.pairs.changes {
		p := c.Path.String()
		x := t.pairs.theirsAt[p]
		if x == nil || c.Before == nil || x.baseIno != c.Before.Ino {
			continue
		}

		f, err := t.fileAt(p)
		if err != nil {
			return err
		}
		if f == nil || f.node.Type() != c.Before.Type() || seen[f] {
			continue
		}

		baseIno, err := t.pairs.baseInoOf(f)
		if err != nil {
			return err
		}
		if baseIno != 0 {
			continue
		}

		all, err := t.namesOf(f, 0)
		if err != nil {
			return err
		}

		slices.SortFunc(all, tree.ComparePaths)
		b, err := t.pairs.firstBaseFile(all, func(*baseFile) (bool, error) { return true, nil })
		if err != nil {
			return err
		}

		names, err := t.namesAfter(f)
		if err != nil {
			return err
		}
		if b.node.Ino != c.Before.Ino || len(names) == 0 || slices.ContainsFunc(names, t.keepsOurs) {
			continue
		}

		seen[f] = true
		if err := t.mergeInode(p, names, f, f, c.Before, x.node); err != nil {
			return err
		}
	}

	return nil
}

// mergeInode merges the changes from base to theirs with the file ours. The result becomes the planned inode of the
// file into, whose paths are names. p is the path under which a user may have decided about the file.
func (t *intervalMerge) mergeInode(p string, names []string, into, ours *file, base, theirs *tree.Inode) error {
	n, view, lines, ok, err := t.mergedInode(p, ours, base, theirs)
	if err != nil {
		return err
	}

	if !ok {
		take := func() error { t.stage(into, theirs, t.pairs.View); return nil }
		for _, name := range names {
			if err := t.addConflict(name, take); err != nil {
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
		t.texts = append(t.texts, textMerge{p, into, base, ours.node, theirs, t.pairs.View})
	}

	return nil
}

// mergedInode returns the inode of the file f with the changes from base to theirs, nil if f does not change. lines is
// set if mergeTexts has to merge the lines of the file, or to use a decision of a user for the path p. ok is false if
// the file is in conflict.
func (t *intervalMerge) mergedInode(p string, f *file, base, theirs *tree.Inode) (n *tree.Inode, view uint32, lines, ok bool, err error) {
	ours := f.node
	_, decided := t.decisions[p]
	if ours == base && !decided {
		return theirs, t.pairs.View, false, true, nil
	}

	m, err := MergeFile(base, ours, theirs, func(x, y *tree.Inode) (bool, error) { return tree.SameData(t.source, x, y) })
	if err != nil {
		return nil, 0, false, false, err
	}
	if decided && !m.NeedsLineMerge {
		m.NeedsLineMerge, m.OK = true, m.OK && CanMergeLines(base, ours, theirs)
	}
	if !m.Changed && !m.NeedsLineMerge {
		return nil, 0, false, m.OK, nil
	}
	if view = f.view; m.DataTaken {
		view = t.pairs.View
	}

	return &m.Node, view, m.NeedsLineMerge, m.OK, nil
}
