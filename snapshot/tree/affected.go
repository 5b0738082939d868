package tree

import (
	"context"
	"errors"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
)

// Damage reports which objects and which bytes of the journal are missing or damaged.
type Damage struct {
	Object func(h cas.Hash) bool
	Log    func(pos, n int64) bool // reports on the n bytes at a journal position
}

// Affected calls fn, in path order, with every path of s that cannot be read completely, because its
// inode, a page of its directory or a part of its content is missing, damaged or malformed. If a
// directory cannot be listed, fn gets the path of the directory in place of the paths below it.
func (s *State) Affected(ctx context.Context, src *Source, bad Damage, fn func(path string)) error {
	// A damaged object may still be in a cache. Reads of this source fail for damaged objects, so that contents
	// decoded from them are not used.
	src = NewSource(goodStore{src.objects, bad.Object}, nil, 16<<20)
	c := checker{ctx: ctx, s: s, src: src, bad: bad, fn: fn, files: make(map[uint64]*checkedFile)}
	n, err := s.Get(src, RootIno)
	if err != nil {
		fn("")
		return notDamage(err)
	}

	if !n.IsDir() {
		fn("")
		return nil
	}

	return c.checkDir(nil, n)
}

// goodStore is an object store in which the objects that bad reports are damaged.
type goodStore struct {
	content.ObjectStore
	bad func(cas.Hash) bool
}

func (g goodStore) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if g.bad(h) {
		return nil, cas.ErrDamaged
	}
	return g.ObjectStore.Get(h, dst)
}

// notDamage returns nil if err means that an object is missing, damaged or malformed. It returns
// any other error unchanged.
func notDamage(err error) error {
	if errors.Is(err, cas.ErrNotFound) || errors.Is(err, errs.Damaged) || errors.Is(err, ErrNoInode) {
		return nil
	}
	return err
}

// checker is the state of one call of Affected.
type checker struct {
	ctx   context.Context
	s     *State
	src   *Source
	bad   Damage
	fn    func(path string)
	files map[uint64]*checkedFile // by inode number, only files with several names
}

// checkedFile is the result for a file with several names.
type checkedFile struct {
	names map[Link]bool
	good  bool
}

// checkDir reports the affected paths at and below a directory.
func (c *checker) checkDir(path *Path, n *Inode) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}

	var ents []Dirent
	whole, err := c.readEntries(n.Dir.root, pos{}, &ents)
	if err != nil {
		return err
	}
	if !whole {
		c.fn(path.String())
	}

	slices.SortFunc(ents, byName)

	for _, e := range ents {
		at, err := path.At(e.Name)
		if err != nil { // a cycle, or a malformed tree
			c.fn(path.Short())
			return nil
		}

		if err := c.checkEntry(at, n, e); err != nil {
			return err
		}
	}

	return nil
}

// checkEntry reports the affected paths at and below an entry of dir.
func (c *checker) checkEntry(path *Path, dir *Inode, e Dirent) error {
	n, err := c.s.child(c.src, dir, e)
	if err != nil {
		return c.report(path, false, err)
	}
	if n.IsDir() {
		return c.checkDir(path, n)
	}

	good, err := c.checkFile(n, Link{dir.Ino, e.Name})
	return c.report(path, good, err)
}

// report calls fn with a path that is not good. If err is not about damage, it returns err instead.
func (c *checker) report(path *Path, good bool, err error) error {
	if err := notDamage(err); err != nil {
		return err
	}
	if !good {
		c.fn(path.String())
	}

	return nil
}

// checkFile reports whether the whole content of a file can be read and l is one of the file's names.
func (c *checker) checkFile(n *Inode, l Link) (good bool, err error) {
	if len(n.Links) < 2 {
		good, err = c.checkContent(n)
		return good && len(n.Links) == 1 && n.Links[0] == l, err
	}

	f := c.files[n.Ino]
	if f == nil {
		f = &checkedFile{names: make(map[Link]bool, len(n.Links))}
		for _, l := range n.Links {
			f.names[l] = true
		}
		if f.good, err = c.checkContent(n); notDamage(err) != nil {
			return false, err
		}

		c.files[n.Ino] = f
	}

	return f.good && f.names[l], nil
}

// checkContent reports whether the whole content of a file can be read.
func (c *checker) checkContent(n *Inode) (good bool, err error) {
	good = !n.Content.AnyInJournal(c.bad.Log)
	seen := make(map[cas.Hash]bool) // lists of chunks: a file may have the same list in many places
	err = n.Content.EachObject(c.src.Files, func(h cas.Hash, isList bool) (bool, error) {
		if c.bad.Object(h) {
			good = false
		}
		if !isList || seen[h] {
			return false, c.ctx.Err()
		}

		seen[h] = true
		return good, nil
	})

	return good, err
}

// readEntries appends the entries of p and of the pages below it to ents, except entries on pages that cannot be
// read. whole is set if all pages could be read.
func (c *checker) readEntries(p *page, at pos, ents *[]Dirent) (whole bool, err error) {
	if p == nil {
		return true, nil
	}
	b, err := p.loadDir(c.src, at, false)
	if err != nil {
		return false, notDamage(err)
	}
	for _, e := range b.ents {
		*ents = append(*ents, e.Dirent)
	}

	whole = true
	for i, k := range b.kids {
		ok, err := c.readEntries(k, at.child(i), ents)
		if err != nil {
			return false, err
		}
		whole = whole && ok
	}

	return whole, nil
}
