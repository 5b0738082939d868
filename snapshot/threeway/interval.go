package threeway

import (
	"context"
	"errors"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An intervalMerge is one call of Plan.TakeInterval: it merges the changes of one interval into the plan. In a
// change c, c.Before is the inode in the base, and c.After the inode in theirs.
//
// Inodes and names are merged separately:
//
//  1. Each file of theirs and of ours continues a file of the base, or is new; see filePairs.
//  2. The attributes and contents of a file are merged from the inodes of the three sides.
//  3. A name leads to a file, to a directory, or does not exist. If ours did not change the name since the base,
//     the plan takes the version of theirs. If theirs did not change it, or both sides changed it in the same
//     way, the plan keeps ours.
//  4. All other names are conflicts. A file that one side changed is a conflict, too, if it has no
//     name after the merge.
//
// All decisions use the plan before the interval, which plannedFiles.fileAt returns. The changes of the interval
// are kept in the draft until commit.
type intervalMerge struct {
	*conflictList
	draft
	pairs     filePairs
	decisions map[string]Decision // Plan.Decisions
	texts     []textMerge
}

// TakeInterval merges the changes of an interval into the plan.
func (p *Plan) TakeInterval(ctx context.Context, i Interval) error {
	t := &intervalMerge{
		conflictList: &p.conflictList, draft: newDraft(&p.files),
		pairs:     filePairs{plannedFiles: &p.files, Interval: i, byPath: p.ByPath},
		decisions: p.Decisions,
	}
	t.selectChanges()
	if err := errors.Join(t.pairs.pairFiles(ctx), t.addDisputed(), t.takeWhole(ctx)); err != nil {
		return err
	}

	// Changes are sorted by path, a directory before its entries. Remove entries before their
	// directory, and make them after it.
	for _, c := range slices.Backward(t.pairs.changes) {
		if c.After == nil {
			if err := t.takeName(ctx, c); err != nil {
				return err
			}
		}
	}

	for _, c := range t.pairs.changes {
		if c.After != nil {
			if err := t.takeName(ctx, c); err != nil {
				return err
			}
		}
	}

	if err := errors.Join(t.mergeInodes(ctx), t.addLost(), t.addMovedTwice()); err != nil {
		return err
	}

	t.draft.commit()
	t.pairs.commit()

	return p.mergeTexts(ctx, t.texts)
}

// selectChanges sets t.pairs.changes to the changes of the interval, except at paths that keep the version of ours.
// If a file moved from or to such a path, the changes of all its names are left out.
func (t *intervalMerge) selectChanges() {
	// names describes the changed names of a file: it lost one (from), it gained one (to), one of them keeps the
	// version of ours (stays).
	type names struct{ from, to, stays bool }
	moved := make(map[uint64]*names)
	note := func(n, other *tree.Inode, stays bool, set func(*names)) {
		if n == nil || other != nil && other.Ino == n.Ino {
			return
		}
		if moved[n.Ino] == nil {
			moved[n.Ino] = &names{}
		}

		set(moved[n.Ino])
		moved[n.Ino].stays = moved[n.Ino].stays || stays
	}
	for _, c := range t.pairs.Changes {
		stays := t.keepsOurs(c.Path.String())
		note(c.Before, c.After, stays, func(n *names) { n.from = true })
		note(c.After, c.Before, stays, func(n *names) { n.to = true })
	}

	movedAtStayingPath := func(n *tree.Inode) bool {
		m := (*names)(nil)
		if n != nil {
			m = moved[n.Ino]
		}

		return m != nil && m.from && m.to && m.stays && !t.pairs.byPath
	}

	t.pairs.changeAt = make(map[string]tree.Change)
	for _, c := range t.pairs.Changes {
		if p := c.Path.String(); !t.keepsOurs(p) && !movedAtStayingPath(c.After) && !movedAtStayingPath(c.Before) {
			t.pairs.changes = append(t.pairs.changes, c)
			t.pairs.changeAt[p] = c
		}
	}
}

// addDisputed adds conflicts for the disputed paths of the interval, unless ours equals theirs.
func (t *intervalMerge) addDisputed() error {
	for _, c := range t.pairs.changes {
		p := c.Path.String()
		if !t.pairs.DisputedPaths[p] {
			continue
		}

		f, err := t.fileAt(p)
		if err != nil {
			return err
		}

		same := f == nil && c.After == nil
		if f != nil && c.After != nil {
			if same, err = t.equals(f, c.After); err != nil {
				return err
			}
		}

		if !same {
			if err := t.addConflict(p, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeName merges the change of a name.
func (t *intervalMerge) takeName(ctx context.Context, c tree.Change) error {
	if err := turns.Yield(ctx); err != nil {
		return err
	}

	p := c.Path.String()
	ours, err := t.fileAt(p)
	if err != nil {
		return err
	}

	isDir := func(n *tree.Inode) bool { return n != nil && n.IsDir() }
	if isDir(c.After) && isDir(c.Before) {
		return t.mergeDir(p, ours, c)
	}
	if c.After == nil && c.Before.IsDir() {
		return t.removeDir(p, ours, c)
	}

	// base and own are numbers of files of the base: base is the file with this name in the base, and own the file of
	// the base that continues at this name in ours. 0: no file, or a new file.
	base, own := uint64(0), uint64(0)
	if c.Before != nil && !c.Before.IsDir() {
		base = c.Before.Ino
	}

	if ours != nil && !ours.node.IsDir() {
		if own, err = t.pairs.baseInoOf(ours); err != nil {
			return err
		}
	}

	theirs := t.pairs.theirsAt[p]
	oursDir := ours != nil && ours.node.IsDir()
	switch {
	case theirs != nil && base != 0 && theirs.baseIno == base:
		return nil
	case oursDir && isDir(c.Before): // theirs replaced a directory of the base by a file
		same, err := t.equals(ours, c.Before)
		if err != nil {
			return err
		}
		if !same {
			return t.conflictAt(p, ours, c)
		}

		return t.takeTheirs(p, c, false)

	case oursDir == isDir(c.Before) && (ours == nil) == (c.Before == nil) && own == base:
		return t.takeTheirs(p, c, false) // ours did not change the name
	case ours == nil && c.After == nil, theirs != nil && own != 0 && theirs.baseIno == own:
		return nil // both sides changed the name in the same way
	case c.After == nil && oursDir:
		return nil // ours replaced the file by a directory, theirs removed the file
	case ours == nil && c.Before != nil && isDir(c.After) != isDir(c.Before):
		return t.takeTheirs(p, c, false) // both sides removed the file of the base, and theirs made a directory, or vice versa
	}

	if ours != nil && c.After != nil && oursDir == isDir(c.After) {
		alike, err := t.sameResult(ours, own, theirs, c)
		if err != nil || alike {
			return err
		}
	}

	// If one side only replaced a hard link by a copy of the file, the version of the other side is used.
	if theirs != nil && c.Before != nil && !c.Before.IsDir() && theirs.baseIno == 0 {
		if same, err := tree.SameFile(t.source, c.After, c.Before); err != nil || same {
			return err
		}
	}

	if ours != nil && own == 0 && c.Before != nil && !c.Before.IsDir() && !oursDir {
		if same, err := t.equals(ours, c.Before); err != nil {
			return err
		} else if same {
			return t.takeTheirs(p, c, false)
		}
	}

	return t.conflictAt(p, ours, c)
}

// sameResult reports whether both sides changed a name to equal files or directories. A copy of a file counts as
// equal to a hard link of the file; if theirs has the link, sameResult plans the link. own is the base's number of
// the file of ours, see takeName.
func (t *intervalMerge) sameResult(ours *file, own uint64, theirs *theirFile, c tree.Change) (bool, error) {
	p := c.Path.String()
	if theirs == nil {
		return t.equals(ours, c.After) // theirs is nil: both sides have directories
	}
	if theirs.file == ours {
		return true, nil
	}

	same, err := t.equals(ours, c.After)
	if err == nil && !same && own == 0 && theirs.baseIno == 0 && c.Before == nil {
		return t.oneEmpty(p, ours, c)
	}
	if err != nil || !same {
		return false, err
	}
	if own != 0 || theirs.baseIno == 0 {
		return theirs.baseIno == 0, nil // false if both sides link files of the base, because these are different files
	}

	// Ours has a copy, theirs has a link. In an undo, f may be a different file that replaced the linked file.
	f, err := t.plannedFile(theirs)
	if err != nil {
		return false, err
	}

	if !t.pairs.byPath {
		if same, err = t.equals(f, c.After); err != nil || !same {
			return false, err
		}
	}

	return true, t.takeTheirs(p, c, false)
}

// oneEmpty reports whether both sides created a file at a name, and one of the files is empty. As in git, the
// plan then has the file that is not empty.
func (t *intervalMerge) oneEmpty(p string, ours *file, c tree.Change) (bool, error) {
	switch n := ours.node; {
	case !n.IsRegular() || n.Mode != c.After.Mode:
		return false, nil
	case n.Size() == 0:
		return true, t.takeTheirs(p, c, false)
	default:
		return c.After.Size() == 0, nil
	}
}

// conflictAt adds a conflict for a name. If the name is a directory in ours and a file in theirs, all paths in
// the directory are in conflict, too.
func (t *intervalMerge) conflictAt(p string, ours *file, c tree.Change) error {
	theirsDir := c.After != nil && c.After.IsDir()
	t.dirOnOneSide[p] = t.dirOnOneSide[p] || c.After != nil && (ours != nil && ours.node.IsDir() != theirsDir || c.Before != nil && c.Before.IsDir() != theirsDir)

	if ours != nil && ours.node.IsDir() && c.After != nil && !theirsDir {
		var names []string
		if err := t.eachPathBelow(p, ours, func(name string) bool { names = append(names, name); return true }); err != nil {
			return err
		}

		for _, name := range names {
			if err := t.addConflict(name, func() error { t.setFile(name, nil); return nil }); err != nil {
				return err
			}
		}
	}

	return t.addConflict(p, func() error { return t.takeTheirs(p, c, true) })
}

// takeTheirs plans the version of theirs for a name. It may add a conflict. If force is set, the name is in
// conflict already, and it adds none.
func (t *intervalMerge) takeTheirs(p string, c tree.Change, force bool) error {
	present, err := t.fileAfter(p)
	if err != nil {
		return err
	}

	if present != nil && present.node.IsDir() && (c.After == nil || !c.After.IsDir()) {
		empty := true
		if err := t.eachPathBelow(p, present, func(string) bool { empty = false; return false }); err != nil {
			return err
		}
		if !empty && !force {
			return t.conflictAt(p, present, c)
		}
		if !empty {
			return nil // the directory is kept, because it has paths that keep the version of ours
		}
	}

	if c.After == nil {
		t.setFile(p, nil)
		return nil
	}

	free, err := t.planParents(p)
	if err == nil && !free {
		if err = t.conflictAbove(p); err == nil {
			free, err = t.planParents(p)
		}
	}

	switch {
	case err != nil:
		return err
	case !free && force:
		return nil
	case !free:
		return t.conflictAt(p, nil, c)
	case c.After.IsDir():
		t.setFile(p, &file{node: c.After, view: t.pairs.View, theirIno: c.After.Ino})
		return nil
	}

	f, err := t.plannedFile(t.pairs.theirsAt[p])
	if err != nil {
		return err
	}

	t.setFile(p, f)

	return nil
}

// mergeDir merges the attributes of a directory that is in the base and in theirs.
func (t *intervalMerge) mergeDir(p string, ours *file, c tree.Change) error {
	same, err := tree.SameFile(t.source, c.After, c.Before)
	if err != nil || same {
		return err
	}
	if ours == nil || !ours.node.IsDir() {
		return t.conflictAt(p, ours, c)
	}

	t.setFile(p, ours)

	return t.mergeInode(p, []string{p}, ours, ours, c.Before, c.After)
}

// removeDir removes a directory that theirs removed, unless the directory has entries in the plan. If ours changed
// the attributes of the directory, the removal is a conflict.
func (t *intervalMerge) removeDir(p string, ours *file, c tree.Change) error {
	if ours == nil || !ours.node.IsDir() {
		return nil
	}
	empty := true
	err := t.eachPathBelow(p, ours, func(string) bool { empty = false; return false })
	if err != nil || !empty {
		return err
	}

	same, err := t.equals(ours, c.Before)
	if err != nil || same {
		t.setFile(p, nil)
		return err
	}

	return t.addConflict(p, func() error { t.setFile(p, nil); return nil })
}
