package threeway

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// taking takes one interval over. A change is from c.Before, the base, to c.After, which is theirs.
//
// Inodes and names are merged separately:
//
//  1. Each file of theirs and of ours goes on a file of the base, or is new; see pairing.
//  2. What a file is like is merged from the three inodes that are the same file.
//  3. A name leads to a file, to a directory, or to nothing. It becomes what it is in theirs
//     if ours has it as the base does. It stays if theirs has it so, or both have it alike.
//  4. All else is a conflict, and so is a file that one side changed if it has no name then.
//
// Everything is decided by the plan as it was before, which Plan.get returns. What the
// interval changes is apart until commit.
type taking struct {
	pairing

	put   map[string]*file // names that the interval changed; nil: nothing is there
	into  map[string][]string
	added map[*file][]string // names of put
	done  bool               // put is in the plan

	staged []staged
}

// staged is what a file will be like.
type staged struct {
	file *file
	node *tree.Inode
	view uint32
}

// Take takes over what an interval changed.
func (p *Plan) Take(ctx context.Context, i Interval) error {
	p.texts = nil
	t := &taking{
		pairing: pairing{Plan: p, Interval: i}, put: make(map[string]*file), into: make(map[string][]string),
		added: make(map[*file][]string),
	}
	t.choose()
	if err := errors.Join(t.pair(ctx), t.dispute(), t.takeWhole(ctx)); err != nil {
		return err
	}
	// Paths sort by their components: what is in a directory goes before the directory,
	// and comes after it.
	for n := range t.changes {
		if c := t.changes[len(t.changes)-1-n]; c.After == nil {
			if err := t.name(ctx, c); err != nil {
				return err
			}
		}
	}
	for _, c := range t.changes {
		if c.After != nil {
			if err := t.name(ctx, c); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(t.inodes(ctx), t.lost(), t.movedTwice()); err != nil {
		return err
	}
	t.commit()
	return p.mergeTexts(ctx)
}

// choose leaves out paths that stay, and the other names of files that moved to or from them.
func (t *taking) choose() {
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
	for _, c := range t.Changes {
		stays := t.stays(c.Path.String())
		note(c.Before, c.After, stays, func(n *names) { n.from = true })
		note(c.After, c.Before, stays, func(n *names) { n.to = true })
	}
	whole := func(n *tree.Inode) bool {
		m := (*names)(nil)
		if n != nil {
			m = moved[n.Ino]
		}
		return m != nil && m.from && m.to && m.stays && !t.ByPath
	}
	t.listed = make(map[string]tree.Change)
	for _, c := range t.Changes {
		if p := c.Path.String(); !t.stays(p) && !whole(c.After) && !whole(c.Before) {
			t.changes = append(t.changes, c)
			t.listed[p] = c
		}
	}
}

// dispute lists paths that others changed in the same interval, unless they are as in theirs.
func (t *taking) dispute() error {
	for _, c := range t.changes {
		p := c.Path.String()
		if !t.Disputed[p] {
			continue
		}
		f, err := t.get(p)
		same := f == nil && c.After == nil
		if err == nil && f != nil && c.After != nil {
			same, err = t.same(f, c.After)
		}
		if err != nil {
			return err
		}
		if !same {
			if err := t.conflict(p, func() error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// name takes over what a change did to a name.
func (t *taking) name(ctx context.Context, c tree.Change) error {
	if err := turns.Yield(ctx); err != nil {
		return err
	}
	p := c.Path.String()
	ours, err := t.get(p)
	if err != nil {
		return err
	}
	isDir := func(n *tree.Inode) bool { return n != nil && n.IsDir() }
	if isDir(c.After) && isDir(c.Before) {
		return t.directory(p, ours, c)
	}
	if c.After == nil && c.Before.IsDir() {
		return t.removeDir(p, ours, c)
	}
	base, own := uint64(0), uint64(0) // the file that the name leads to, by its number in the base
	if c.Before != nil && !c.Before.IsDir() {
		base = c.Before.Ino
	}
	if ours != nil && !ours.node.IsDir() {
		if own, err = t.ownOf(ours); err != nil {
			return err
		}
	}
	theirs := t.theirs[p]
	oursDir := ours != nil && ours.node.IsDir()
	switch {
	case theirs != nil && base != 0 && theirs.goesOn == base:
		return nil
	case oursDir && isDir(c.Before): // theirs has none
		same, err := t.same(ours, c.Before)
		if err != nil {
			return err
		}
		if !same {
			return t.conflictAt(p, ours, c)
		}
		return t.become(p, c, false)
	case oursDir == isDir(c.Before) && (ours == nil) == (c.Before == nil) && own == base:
		return t.become(p, c, false) // ours did not change it
	case ours == nil && c.After == nil, theirs != nil && own != 0 && theirs.goesOn == own:
		return nil // both changed it alike
	case c.After == nil && oursDir:
		return nil // others put a directory in the place of the file
	case ours == nil && c.Before != nil && isDir(c.After) != isDir(c.Before):
		return t.become(p, c, false) // the file or the directory is gone in both
	}
	if ours != nil && c.After != nil && oursDir == isDir(c.After) {
		alike, err := t.alike(ours, own, theirs, c)
		if err != nil || alike {
			return err
		}
	}
	// A name that one side only separated from the others of its file is as the other side has it.
	if theirs != nil && c.Before != nil && !c.Before.IsDir() && theirs.goesOn == 0 {
		if same, err := tree.SameFile(t.Source, c.After, c.Before); err != nil || same {
			return err
		}
	}
	if ours != nil && own == 0 && c.Before != nil && !c.Before.IsDir() && !oursDir {
		if same, err := t.same(ours, c.Before); err != nil {
			return err
		} else if same {
			return t.become(p, c, false)
		}
	}
	return t.conflictAt(p, ours, c)
}

// alike reports whether what both sides put at a name is the same.
func (t *taking) alike(ours *file, own uint64, theirs *theirFile, c tree.Change) (bool, error) {
	p := c.Path.String()
	if theirs == nil {
		return t.same(ours, c.After) // directories
	}
	if theirs.file == ours {
		return true, nil
	}
	same, err := t.same(ours, c.After)
	switch {
	case err != nil || !same:
		return false, err
	case own == 0 && theirs.goesOn != 0: // ours has a copy of what theirs has a link to
		f, err := t.fileOf(theirs)
		if err == nil && !t.ByPath { // an undo may have paired it with another file that was put in its place
			same, err = t.same(f, c.After)
		}
		if err != nil || !same {
			return false, err
		}
		return true, t.become(p, c, false)
	}
	return own == 0 || theirs.goesOn == 0, nil
}

// conflictAt is a conflict at a name. What others have in a directory that theirs has
// something else in place of is in conflict, too.
func (t *taking) conflictAt(p string, ours *file, c tree.Change) error {
	theirsDir := c.After != nil && c.After.IsDir()
	t.whole[p] = t.whole[p] || c.After != nil && (ours != nil && ours.node.IsDir() != theirsDir || c.Before != nil && c.Before.IsDir() != theirsDir)
	if ours != nil && ours.node.IsDir() && c.After != nil && !theirsDir {
		var names []string
		if err := t.below(p, ours, func(name string) bool { names = append(names, name); return true }); err != nil {
			return err
		}
		for _, name := range names {
			if err := t.conflict(name, func() error { t.set(name, nil); return nil }); err != nil {
				return err
			}
		}
	}
	return t.conflict(p, func() error { return t.become(p, c, true) })
}

// become makes a name what it is in theirs. With force it was a conflict.
func (t *taking) become(p string, c tree.Change, force bool) error {
	there, err := t.after(p)
	if err != nil {
		return err
	}
	if there != nil && there.node.IsDir() && (c.After == nil || !c.After.IsDir()) {
		empty := true
		if err := t.below(p, there, func(string) bool { empty = false; return false }); err != nil {
			return err
		}
		if !empty && !force {
			return t.conflictAt(p, there, c)
		}
		if !empty {
			return nil // something in it stays
		}
	}
	if c.After == nil {
		t.set(p, nil)
		return nil
	}
	free, err := t.parents(p)
	switch {
	case err != nil:
		return err
	case !free && force:
		return nil
	case !free:
		return t.conflictAt(p, nil, c)
	case c.After.IsDir():
		t.set(p, &file{node: c.After, view: t.Interval.View, ino: c.After.Ino})
		return nil
	}
	f, err := t.fileOf(t.theirs[p])
	if err == nil {
		t.set(p, f)
	}
	return err
}

// directory merges the attributes of a directory.
func (t *taking) directory(p string, ours *file, c tree.Change) error {
	same, err := tree.SameFile(t.Source, c.After, c.Before)
	if err != nil || same {
		return err
	}
	if ours == nil || !ours.node.IsDir() {
		return t.conflictAt(p, ours, c)
	}
	t.set(p, ours)
	return t.inode(p, []string{p}, ours, ours, c.Before, c.After)
}

// removeDir removes a directory that theirs does not have, unless something is in it.
func (t *taking) removeDir(p string, ours *file, c tree.Change) error {
	if ours == nil || !ours.node.IsDir() {
		return nil
	}
	empty := true
	err := t.below(p, ours, func(string) bool { empty = false; return false })
	if err != nil || !empty {
		return err
	}
	same, err := t.same(ours, c.Before)
	if err != nil || same {
		t.set(p, nil)
		return err
	}
	return t.conflict(p, func() error { t.set(p, nil); return nil })
}
