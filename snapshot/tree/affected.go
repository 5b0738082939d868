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
	Log    func(pos, n int64) bool // any of n bytes at a journal position
}

// Affected calls fn, in path order, with every path of s that cannot be read completely: its
// inode, a page of its directory or a part of its content is missing, damaged or malformed.
// For paths below a directory that cannot be listed, it calls fn with the directory.
func (s *State) Affected(ctx context.Context, src *Source, bad Damage, fn func(path string)) error {
	// A damaged object may still be in a cache. This source refuses it, so that nothing decoded
	// from it is used.
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
	return c.dir(nil, n)
}

// goodStore refuses bad objects.
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

// notDamage returns err, or nil if err means that an object is missing or malformed.
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
	files map[uint64]*checkedFile // those with several names
}

// checkedFile is the result for a file with several names.
type checkedFile struct {
	names map[Link]bool
	good  bool
}

func (c *checker) dir(path *Path, n *Inode) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	var ents []Dirent
	whole, err := c.entries(n.Dir.root, pos{}, &ents)
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
		if err := c.entry(at, n, e); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) entry(path *Path, dir *Inode, e Dirent) error {
	n, err := c.s.child(c.src, dir, e)
	if err == nil && n.IsDir() {
		return c.dir(path, n)
	}
	good := false
	if err == nil {
		good, err = c.file(n, Link{dir.Ino, e.Name})
	}
	if !good && notDamage(err) == nil {
		c.fn(path.String())
	}
	return notDamage(err)
}

// file reports whether all of a file can be read, and l is one of its names.
func (c *checker) file(n *Inode, l Link) (good bool, err error) {
	if len(n.Links) < 2 {
		good, err = c.content(n)
		return good && len(n.Links) == 1 && n.Links[0] == l, err
	}
	f := c.files[n.Ino]
	if f == nil {
		f = &checkedFile{names: make(map[Link]bool, len(n.Links))}
		for _, l := range n.Links {
			f.names[l] = true
		}
		if f.good, err = c.content(n); notDamage(err) != nil {
			return false, err
		}
		c.files[n.Ino] = f
	}
	return f.good && f.names[l], nil
}

func (c *checker) content(n *Inode) (good bool, err error) {
	good = !n.Content.InLog(c.bad.Log)
	seen := make(map[cas.Hash]bool) // one list may be in many places
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

// entries adds the entries on those pages of a directory that can be read, and
// reports whether that is all of them.
func (c *checker) entries(p *page, at pos, to *[]Dirent) (whole bool, err error) {
	if p == nil {
		return true, nil
	}
	b, err := p.loadDir(c.src, at, false)
	if err != nil {
		return false, notDamage(err)
	}
	for _, e := range b.ents {
		*to = append(*to, e.Dirent)
	}
	whole = true
	for i, k := range b.kids {
		ok, err := c.entries(k, at.down(i), to)
		if err != nil {
			return false, err
		}
		whole = whole && ok
	}
	return whole, nil
}
