package threeway

import (
	"context"
	"errors"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// pairing finds what became of the files of the base: everything that is no directory.
//
// A file of the base that has one of its names still is that file. Else what is at its names
// goes on it: programs save a file by putting a new one in its place. Of several files it is
// the first by path. A file that has only other names was moved: it is that of the same inode
// number. By paths it is a new one.
type pairing struct {
	*Plan
	Interval
	changes []tree.Change          // those to take over
	listed  map[string]tree.Change // by path

	base   map[uint64]*baseFile
	theirs map[string]*theirFile // by the paths of the changes
	files  []*theirFile          // in the order of their first paths
	own    map[*file]uint64      // see ownOf
}

// A baseFile is a file of the base.
type baseFile struct {
	node   *tree.Inode
	names  []string   // in order
	theirs *theirFile // what it is in theirs, if a change has it
	ours   *file      // see oursOf
	same   *file      // see kept
	asked  [2]bool    // for ours, for same
	lost   []string   // names that it does not have in theirs
	gained []string   // names that it has in theirs only
}

// A theirFile is a file of theirs that a change has.
type theirFile struct {
	node   *tree.Inode
	paths  []string  // of the changes
	goesOn uint64    // the file of the base that it is; 0: a new one
	copied *baseFile // which a new one is a copy of: what the base has at path
	path   string
	file   *file // in the plan, once it is there
}

// pair pairs the files of theirs with those of the base, and new ones with new ones of ours.
func (t *pairing) pair(ctx context.Context) error {
	t.base, t.theirs, t.own = make(map[uint64]*baseFile), make(map[string]*theirFile), make(map[*file]uint64)
	byIno := make(map[uint64]*theirFile)
	for _, c := range t.changes {
		if err := turns.Yield(ctx); err != nil {
			return err
		}
		if c.After == nil || c.After.IsDir() {
			continue
		}
		x := byIno[c.After.Ino]
		if x == nil {
			x = &theirFile{node: c.After}
			byIno[c.After.Ino] = x
			t.files = append(t.files, x)
		}
		p := c.Path.String()
		x.paths, t.theirs[p] = append(x.paths, p), x
	}
	for _, x := range t.files {
		b, err := t.baseFile(x.node.Ino)
		if err != nil {
			return err
		}
		kept := false
		if b != nil {
			if kept, err = t.keptInTheirs(b); err != nil {
				return err
			}
		}
		if kept {
			x.goesOn, b.theirs = b.node.Ino, x
		}
	}
	first := make(map[*theirFile]*baseFile)
	for _, x := range t.files {
		if x.goesOn != 0 {
			continue
		}
		b, err := t.firstGone(x.paths, func(b *baseFile) (bool, error) { return !t.retained(b), nil })
		if err != nil {
			return err
		}
		first[x] = b
	}
	for _, b := range first {
		if b == nil || b.theirs != nil {
			continue
		}
		for _, p := range b.names {
			if x := t.theirs[p]; x != nil && x.goesOn == 0 && first[x] == b {
				x.goesOn, b.theirs = b.node.Ino, x
				break
			}
		}
	}
	for _, x := range t.files {
		if x.goesOn != 0 || t.ByPath {
			continue
		}
		b, err := t.baseFile(x.node.Ino)
		if err != nil {
			return err
		}
		if b != nil && b.theirs == nil && !t.retained(b) {
			x.goesOn, b.theirs = b.node.Ino, x
		}
	}
	for _, c := range t.changes {
		if err := t.note(c); err != nil {
			return err
		}
	}
	for _, x := range t.files {
		pair := t.pairNew
		if x.goesOn != 0 {
			pair = t.pairCopy
		}
		if err := pair(x); err != nil {
			return err
		}
	}
	return nil
}

// pairCopy finds the copy that ours has in the new place of a file that ours has not.
func (t *pairing) pairCopy(x *theirFile) error {
	b, err := t.baseFile(x.goesOn)
	if err != nil || len(b.gained) == 0 {
		return err
	}
	if ours, err := t.oursOf(b); err != nil || ours != nil {
		return err
	}
	for _, p := range b.gained {
		f, err := t.get(p)
		if err != nil || f == nil || f.node.IsDir() {
			if err != nil {
				return err
			}
			continue
		}
		own, err := t.ownOf(f)
		same := false
		if err == nil && own == 0 {
			same, err = t.same(f, x.node)
		}
		if same {
			x.file = f
		}
		if err != nil || same {
			return err
		}
	}
	return nil
}

// keptInTheirs reports whether the file of theirs with the number of one of the base has one
// of its names.
func (t *pairing) keptInTheirs(b *baseFile) (bool, error) {
	for _, p := range b.names {
		if c, ok := t.listed[p]; ok {
			if c.After != nil && c.After.Ino == b.node.Ino {
				return true, nil
			}
			continue
		}
		n, err := t.Theirs.At(t.Source, p)
		if err != nil || n != nil && n.Ino == b.node.Ino {
			return err == nil, err
		}
	}
	return false, nil
}

// retained reports whether theirs has a file of the base at a name that it has there.
func (t *pairing) retained(b *baseFile) bool {
	return slices.ContainsFunc(b.names, func(p string) bool {
		c, ok := t.listed[p]
		return !ok || c.After != nil && c.After.Ino == b.node.Ino
	})
}

// firstGone returns the file of the base at the first of some names that leads to one that
// is gone; nil for none.
func (t *pairing) firstGone(names []string, gone func(*baseFile) (bool, error)) (*baseFile, error) {
	for _, p := range names {
		b, err := t.baseAt(p)
		if err != nil {
			return nil, err
		}
		if b != nil {
			if is, err := gone(b); err != nil || is {
				return b, err
			}
		}
	}
	return nil, nil
}

// note notes the names that a file of the base lost and gained.
func (t *pairing) note(c tree.Change) error {
	p := c.Path.String()
	was, is := uint64(0), uint64(0)
	if c.Before != nil && !c.Before.IsDir() {
		was = c.Before.Ino
	}
	if x := t.theirs[p]; x != nil {
		is = x.goesOn
	}
	if was == is {
		return nil
	}
	if was != 0 {
		b, err := t.baseFile(was)
		if err != nil {
			return err
		}
		b.lost = append(b.lost, p)
	}
	if is != 0 {
		b, err := t.baseFile(is)
		if err != nil {
			return err
		}
		b.gained = append(b.gained, p)
	}
	return nil
}

// pairNew finds what a new file of theirs is a copy of, and the new file of ours that is the
// same.
func (t *pairing) pairNew(x *theirFile) error {
	for _, p := range x.paths {
		b, err := t.baseAt(p)
		if err != nil {
			return err
		}
		if b != nil {
			x.copied, x.path = b, p
			break
		}
	}
	for _, p := range x.paths {
		if x.copied != nil && p != x.path {
			continue
		}
		f, err := t.get(p)
		if err != nil || f == nil || f.node.IsDir() {
			if err != nil {
				return err
			}
			continue
		}
		own, err := t.ownOf(f)
		if err == nil && own == 0 {
			same := x.copied != nil
			if !same {
				same, err = t.same(f, x.node)
			}
			if same {
				x.file = f
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// baseFile returns the file of the base with a number, nil for none.
func (t *pairing) baseFile(ino uint64) (*baseFile, error) {
	b, ok := t.base[ino]
	if ok {
		return b, nil
	}
	n, err := t.Base.Get(t.Source, ino)
	switch {
	case errors.Is(err, tree.ErrNoInode), err == nil && n.IsDir():
		t.base[ino] = nil
		return nil, nil
	case err != nil:
		return nil, err
	}
	names, err := t.Base.Paths(t.Source, n)
	if err == nil {
		slices.SortFunc(names, tree.ComparePaths)
		b = &baseFile{node: n, names: names}
		t.base[ino] = b
	}
	return b, err
}

// baseAt returns the file of the base at a path, nil for none.
func (t *pairing) baseAt(p string) (*baseFile, error) {
	var n *tree.Inode
	if c, ok := t.listed[p]; ok {
		n = c.Before
	} else {
		var err error
		if n, err = t.Base.At(t.Source, p); err != nil {
			return nil, err
		}
	}
	if n == nil || n.IsDir() {
		return nil, nil
	}
	if b := t.base[n.Ino]; b == nil && len(n.Links) == 1 {
		t.base[n.Ino] = &baseFile{node: n, names: []string{p}}
	}
	return t.baseFile(n.Ino)
}
