package tree

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas"
)

// A Keeper collects the objects that a gc keeps. Keep adds one and reports whether it is new.
// KeepLeaf adds an object that refers to no others.
type Keeper interface {
	Keep(h cas.Hash) (first bool)
	KeepLeaf(h cas.Hash)
}

// keep is a Keeper that treats all objects alike.
type keep func(cas.Hash) (first bool)

func (k keep) Keep(h cas.Hash) bool { return k(h) }

func (k keep) KeepLeaf(h cas.Hash) { k(h) }

// Mark is MarkFor with a function.
func (s *State) Mark(ctx context.Context, src *Source, like *State, incomplete bool, fn func(cas.Hash) (first bool)) error {
	return s.MarkFor(ctx, src, like, incomplete, keep(fn))
}

// MarkFor calls k with every object that s needs. The objects below an object are visited only
// if Keep reports that it is new. So the cost of marking many states depends on their number and
// on their differences.
//
// With incomplete, a missing object (cas.ErrNotFound) is skipped: what is below it is lost.
//
// A gc has to mark also the states in memory: pages that were stored by a Seal which was
// interrupted are referred to only there. The store keeps what a Seal writes meanwhile.
//
// like is a state that was marked before for the same Keeper, or nil. Pages and inodes that s is
// known to share with it are skipped.
func (s *State) MarkFor(ctx context.Context, src *Source, like *State, incomplete bool, k Keeper) error {
	if id, ok := s.ID(); ok && !k.Keep(id) {
		return nil
	}
	m := marker{ctx: ctx, src: src, incomplete: incomplete, Keeper: k}
	var at *page
	if like != nil && like.height == s.height {
		at = like.root
	}
	return m.table(s.root, at, s.height, 0)
}

type marker struct {
	Keeper
	ctx context.Context
	src *Source

	incomplete bool
}

// orMissing returns err, or nil if it means that an object is missing which may be.
func (m *marker) orMissing(err error) error {
	if m.incomplete && errors.Is(err, cas.ErrNotFound) {
		return nil
	}
	return err
}

// first marks a page, and reports whether to visit what is below it. A page without a hash is only
// in memory, but what it refers to may be stored.
func (m *marker) first(p *page) bool {
	id, ok := p.id()
	return !ok || m.Keep(id)
}

// marked reports whether a page is stored, and the state that was marked before has it too. What is
// below a page in memory may have been stored since.
func marked(p, like *page) bool {
	if like == nil {
		return false
	}
	id, ok := p.id()
	other, also := like.id()
	return ok && also && id == other
}

// table visits a table page whose first inode number is base. like is the page at the same place in
// the state that was marked before, or nil.
func (m *marker) table(p, like *page, height int, base uint64) error {
	if p == nil || marked(p, like) || !m.first(p) {
		return nil
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}
	b, err := p.loadTable(m.src, height, base, like != nil)
	if err != nil {
		return m.orMissing(err)
	}
	before := &body{}
	if like != nil {
		if other, err := like.loadTable(m.src, height, base, true); err == nil { // else nothing is known to be shared
			before = other
		}
	}
	for i, k := range b.kids {
		var other *page
		if before.kids != nil {
			other = before.kids[i]
		}
		if err := m.table(k, other, height-1, base+uint64(i)<<(tableBits*(height-1))); err != nil {
			return err
		}
	}
	if b.leaf == nil {
		return nil
	}
	for i := range tableFan {
		if before.leaf != nil && b.leaf.sameStored(before.leaf, i) {
			continue
		}
		for _, h := range b.leaf.pieces(i) {
			m.KeepLeaf(h)
		}
		n, err := b.leaf.get(m.src, i, base+uint64(i))
		if err = m.orMissing(err); err != nil {
			return err
		}
		if n != nil {
			if err := m.inode(n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *marker) inode(n *Inode) error {
	if n.IsDir() {
		return m.dir(n.Dir.root, pos{})
	}
	return n.Content.EachObject(m.src.Files, func(h cas.Hash, isList bool) (bool, error) {
		if !isList {
			m.KeepLeaf(h)
			return false, nil
		}
		if !m.Keep(h) {
			return false, nil
		}
		if m.incomplete {
			if _, err := m.src.objects.Get(h, nil); errors.Is(err, cas.ErrNotFound) {
				return false, nil
			}
		}
		return true, nil
	})
}

func (m *marker) dir(p *page, at pos) error {
	if p == nil || !m.first(p) {
		return nil
	}
	if p.n <= maxDirLeaf {
		return nil // a leaf refers to inode numbers only: no need to load it
	}
	b, err := p.loadDir(m.src, at, false)
	if err != nil {
		return m.orMissing(err)
	}
	for i, k := range b.kids {
		if err := m.dir(k, at.down(i)); err != nil {
			return err
		}
	}
	return nil
}
