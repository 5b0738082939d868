package tree

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas"
)

// A Keeper collects the objects that a gc keeps. Keep adds an object and reports whether it is new.
// KeepLeaf adds an object that refers to no other objects.
type Keeper interface {
	Keep(h cas.Hash) (first bool)
	KeepLeaf(h cas.Hash)
}

// A keepFunc is a Keeper that treats Keep and KeepLeaf alike.
type keepFunc func(cas.Hash) (first bool)

func (k keepFunc) Keep(h cas.Hash) bool { return k(h) }

func (k keepFunc) KeepLeaf(h cas.Hash) { k(h) }

// Mark does the work of MarkFor, and calls fn instead of the methods of a Keeper.
func (s *State) Mark(ctx context.Context, src *Source, like *State, incomplete bool, fn func(cas.Hash) (first bool)) error {
	return s.MarkFor(ctx, src, like, incomplete, keepFunc(fn))
}

// MarkFor calls k with every object that s needs. It visits the objects below an object only if Keep reports that
// the object is new. So the cost of marking many states depends on their number and on their differences, not on
// their sizes.
//
// With incomplete, missing objects (cas.ErrNotFound) are skipped, and the objects below them are not
// marked.
//
// A gc also has to mark the states in memory, because only these refer to the pages that an interrupted Seal has
// stored. The store itself protects objects that a Seal writes during the gc.
//
// like is nil, or a state that was marked earlier for the same Keeper. MarkFor skips pages and inodes that s is
// known to share with like.
func (s *State) MarkFor(ctx context.Context, src *Source, like *State, incomplete bool, k Keeper) error {
	if id, ok := s.ID(); ok && !k.Keep(id) {
		return nil
	}

	m := marker{ctx: ctx, src: src, incomplete: incomplete, Keeper: k}
	var at *page
	if like != nil && like.height == s.height {
		at = like.root
	}

	return m.markTable(s.root, at, s.height, 0)
}

// marker is the state of one call of MarkFor.
type marker struct {
	Keeper
	ctx context.Context
	src *Source

	incomplete bool
}

// allowMissing returns nil if err means that an object is missing, and m.incomplete allows this. It returns any
// other error unchanged.
func (m *marker) allowMissing(err error) error {
	if m.incomplete && errors.Is(err, cas.ErrNotFound) {
		return nil
	}
	return err
}

// markPage marks a page and reports whether the pages below must be visited. A page without a hash is
// only in memory, but objects below it may be stored.
func (m *marker) markPage(p *page) bool {
	id, ok := p.id()
	return !ok || m.Keep(id)
}

// isMarked reports whether p was marked with the page like of the state that was marked earlier. Pages without a
// hash are never equal: objects below them may have been stored since like was marked.
func isMarked(p, like *page) bool {
	if like == nil {
		return false
	}
	id, ok := p.id()
	other, also := like.id()
	return ok && also && id == other
}

// markTable marks a table page and all objects below it. base is its first inode number. like is the page at the
// same position in the state that was marked earlier, or nil.
func (m *marker) markTable(p, like *page, height int, base uint64) error {
	if p == nil || isMarked(p, like) || !m.markPage(p) {
		return nil
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}

	b, err := p.loadTable(m.src, height, base, like != nil)
	if err != nil {
		return m.allowMissing(err)
	}

	before := &body{}
	if like != nil {
		// If like cannot be read, all kids and inodes of p are visited.
		if other, err := like.loadTable(m.src, height, base, true); err == nil {
			before = other
		}
	}

	for i, k := range b.kids {
		var other *page
		if before.kids != nil {
			other = before.kids[i]
		}
		if err := m.markTable(k, other, height-1, base+uint64(i)<<(tableBits*(height-1))); err != nil {
			return err
		}
	}
	if b.leaf == nil {
		return nil
	}

	return m.markLeaf(b.leaf, before.leaf, base)
}

// markLeaf marks the objects of all inodes of a leaf. like is the leaf at the same position in the state that was
// marked earlier, or nil.
func (m *marker) markLeaf(l, like *tableLeaf, base uint64) error {
	for i := range tableFan {
		if like != nil && l.sameRecord(like, i) {
			continue
		}
		for _, h := range l.pieces(i) {
			m.KeepLeaf(h)
		}

		n, err := l.get(m.src, i, base+uint64(i))
		if err = m.allowMissing(err); err != nil {
			return err
		}

		if n != nil {
			if err := m.markInode(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// markInode marks the pages of a directory, or the objects of a file's content.
func (m *marker) markInode(n *Inode) error {
	if n.IsDir() {
		return m.markDir(n.Dir.root, pos{})
	}
	return n.Content.EachObject(m.src.Files, func(h cas.Hash, isList bool) (bool, error) {
		if !isList {
			m.KeepLeaf(h)
			return false, nil
		}
		if !m.Keep(h) {
			return false, nil
		}

		if m.incomplete { // EachObject would fail at a missing list
			if _, err := m.src.objects.Get(h, nil); errors.Is(err, cas.ErrNotFound) {
				return false, nil
			}
		}

		return true, nil
	})
}

// markDir marks a directory page and the pages below it.
func (m *marker) markDir(p *page, at pos) error {
	if p == nil || !m.markPage(p) {
		return nil
	}
	if p.n <= maxDirLeaf {
		return nil // a leaf has inode numbers only, no hashes
	}

	b, err := p.loadDir(m.src, at, false)
	if err != nil {
		return m.allowMissing(err)
	}

	for i, k := range b.kids {
		if err := m.markDir(k, at.child(i)); err != nil {
			return err
		}
	}

	return nil
}
