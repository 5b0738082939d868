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
	ObjectDamaged func(h cas.Hash) bool   // reports whether an object is missing or damaged
	LogDamaged    func(pos, n int64) bool // reports whether some of the n bytes at a journal position are damaged
}

// Affected calls fn, in path order, with every path of s that cannot be read completely. The reason is that its inode,
// a page of its directory or a part of its content is missing, damaged or malformed. If a directory cannot be listed,
// fn is called with the path of the directory instead of the paths below it.
func (s *State) Affected(ctx context.Context, src *Source, damage Damage, fn func(path string)) error {
	// A damaged object may still be in a cache. Reads of this source fail for damaged objects, so that contents
	// decoded from them are not used.
	src = NewSource(undamagedStore{src.objects, damage.ObjectDamaged}, nil, 16<<20)
	c := checker{ctx: ctx, s: s, src: src, damage: damage, fn: fn, files: make(map[uint64]*checkedFile)}
	n, err := s.Get(src, RootIno)
	if err != nil {
		fn("")
		return ignoreDamage(err)
	}

	if !n.IsDir() {
		fn("")
		return nil
	}

	return c.checkDir(nil, n)
}

// An undamagedStore is an object store whose Get fails for the objects that isDamaged reports.
type undamagedStore struct {
	content.ObjectStore
	isDamaged func(cas.Hash) bool
}

func (g undamagedStore) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if g.isDamaged(h) {
		return nil, cas.ErrDamaged
	}
	return g.ObjectStore.Get(h, dst)
}

// ignoreDamage returns nil if err means that an object is missing, damaged or malformed. It returns any other
// error unchanged.
func ignoreDamage(err error) error {
	if errors.Is(err, cas.ErrNotFound) || errors.Is(err, errs.Damaged) || errors.Is(err, ErrNoInode) {
		return nil
	}
	return err
}

// checker is the state of one call of Affected.
type checker struct {
	ctx    context.Context
	s      *State
	src    *Source
	damage Damage
	fn     func(path string)
	files  map[uint64]*checkedFile // by inode number, only files with several names
}

// checkedFile is the result for a file with several names.
type checkedFile struct {
	names    map[Link]bool
	readable bool
}

// checkDir reports the affected paths at and below a directory.
func (c *checker) checkDir(path *Path, n *Inode) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}

	var ents []Dirent
	allRead, err := c.readEntries(n.Dir.root, triePos{}, &ents)
	if err != nil {
		return err
	}
	if !allRead {
		c.fn(path.String())
	}

	slices.SortFunc(ents, byName)

	for _, e := range ents {
		at, err := path.Child(e.Name)
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
	n, err := c.s.entryInode(c.src, dir, e)
	if err != nil {
		return c.report(path, false, err)
	}
	if n.IsDir() {
		return c.checkDir(path, n)
	}

	readable, err := c.checkFile(n, Link{dir.Ino, e.Name})
	return c.report(path, readable, err)
}

// report calls fn with a path that is not readable. If err has another cause than damage, it returns err instead.
func (c *checker) report(path *Path, readable bool, err error) error {
	if err := ignoreDamage(err); err != nil {
		return err
	}
	if !readable {
		c.fn(path.String())
	}

	return nil
}

// checkFile reports whether the whole content of a file can be read and l is one of the file's names.
func (c *checker) checkFile(n *Inode, l Link) (readable bool, err error) {
	if len(n.Links) < 2 {
		readable, err = c.checkContent(n)
		return readable && len(n.Links) == 1 && n.Links[0] == l, err
	}

	f := c.files[n.Ino]
	if f == nil {
		f = &checkedFile{names: make(map[Link]bool, len(n.Links))}
		for _, l := range n.Links {
			f.names[l] = true
		}
		if f.readable, err = c.checkContent(n); ignoreDamage(err) != nil {
			return false, err
		}

		c.files[n.Ino] = f
	}

	return f.readable && f.names[l], nil
}

// checkContent reports whether the whole content of a file can be read.
func (c *checker) checkContent(n *Inode) (readable bool, err error) {
	readable = !n.Content.AnyInJournal(c.damage.LogDamaged)
	seen := make(map[cas.Hash]bool) // lists of chunks: a file may have the same list in many places
	err = n.Content.EachObject(c.src.Files, func(h cas.Hash, isList bool) (bool, error) {
		if c.damage.ObjectDamaged(h) {
			readable = false
		}
		if !isList || seen[h] {
			return false, c.ctx.Err()
		}

		seen[h] = true
		return readable, nil
	})

	return readable, err
}

// readEntries appends the entries of p and of the pages below it to ents, except entries on pages that cannot be
// read. allRead is set if all pages could be read.
func (c *checker) readEntries(p *page, pos triePos, ents *[]Dirent) (allRead bool, err error) {
	if p == nil {
		return true, nil
	}
	b, err := p.loadDir(c.src, pos, false)
	if err != nil {
		return false, ignoreDamage(err)
	}
	for _, e := range b.ents {
		*ents = append(*ents, e.Dirent)
	}

	allRead = true
	for i, k := range b.kids {
		ok, err := c.readEntries(k, pos.child(i), ents)
		if err != nil {
			return false, err
		}
		allRead = allRead && ok
	}

	return allRead, nil
}
