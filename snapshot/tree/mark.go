package tree

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas"
)

// A MarkSet collects the objects that a gc keeps. Mark adds an object and reports whether it is new. MarkLeaf adds
// an object that refers to no other objects.
type MarkSet interface {
	Mark(h cas.Hash) (first bool)
	MarkLeaf(h cas.Hash)
}

// A markFunc is a MarkSet that treats Mark and MarkLeaf alike.
type markFunc func(cas.Hash) (first bool)

func (k markFunc) Mark(h cas.Hash) bool { return k(h) }

func (k markFunc) MarkLeaf(h cas.Hash) { k(h) }

// Mark does the work of MarkInto, and calls fn instead of the methods of a MarkSet.
func (s *State) Mark(ctx context.Context, src *Source, marked *State, incomplete bool, fn func(cas.Hash) (first bool)) error {
	return s.MarkInto(ctx, src, marked, incomplete, markFunc(fn))
}

// MarkInto adds every object that s needs to the set k. It visits the objects below an object only if Mark reports
// that the object is new. So the cost of marking many states depends on their number and on their differences, not
// on their sizes.
//
// If incomplete is set, missing objects (cas.ErrNotFound) are skipped, and the objects below them are not marked.
//
// A gc also has to mark the states in memory, because only these refer to the pages that an interrupted Seal has
// stored. The store itself protects objects that a Seal writes during the gc.
//
// marked is nil, or a state that was marked earlier into the same set. MarkInto skips pages and inodes that s is
// known to share with it.
func (s *State) MarkInto(ctx context.Context, src *Source, marked *State, incomplete bool, k MarkSet) error {
	if id, ok := s.ID(); ok && !k.Mark(id) {
		return nil
	}

	m := marker{ctx: ctx, src: src, incomplete: incomplete, MarkSet: k}
	var at *page
	if marked != nil && marked.height == s.height {
		at = marked.root
	}

	return m.markTable(s.root, at, s.height, 0)
}

// marker is the state of one call of MarkInto.
type marker struct {
	MarkSet
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
	return !ok || m.Mark(id)
}

// isMarked reports whether p equals marked, the page at the same position in the state that was marked earlier.
// Pages without a hash are never equal: objects below them may have been stored since then.
func isMarked(p, marked *page) bool {
	if marked == nil {
		return false
	}
	id, ok := p.id()
	other, also := marked.id()
	return ok && also && id == other
}

// markTable marks a table page and all objects below it. base is its first inode number. marked is the page at the
// same position in the state that was marked earlier, or nil.
func (m *marker) markTable(p, marked *page, height int, base uint64) error {
	if p == nil || isMarked(p, marked) || !m.markPage(p) {
		return nil
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}

	b, err := p.loadTable(m.src, height, base, marked != nil)
	if err != nil {
		return m.allowMissing(err)
	}

	markedBody := &body{}
	if marked != nil {
		// If marked cannot be read, all kids and inodes of p are visited.
		if other, err := marked.loadTable(m.src, height, base, true); err == nil {
			markedBody = other
		}
	}

	for i, k := range b.kids {
		var other *page
		if markedBody.kids != nil {
			other = markedBody.kids[i]
		}
		if err := m.markTable(k, other, height-1, base+uint64(i)<<(tableBits*(height-1))); err != nil {
			return err
		}
	}
	if b.leaf == nil {
		return nil
	}

	return m.markLeaf(b.leaf, markedBody.leaf, base)
}

// markLeaf marks the objects of all inodes of a leaf. marked is the leaf at the same position in the state that
// was marked earlier, or nil.
func (m *marker) markLeaf(l, marked *tableLeaf, base uint64) error {
	for i := range tableFanout {
		if marked != nil && l.sameRecord(marked, i) {
			continue
		}
		for _, h := range l.pieces(i) {
			m.MarkLeaf(h)
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
		return m.markDir(n.Dir.root, triePos{})
	}
	return n.Content.EachObject(m.src.Files, func(h cas.Hash, isList bool) (bool, error) {
		if !isList {
			m.MarkLeaf(h)
			return false, nil
		}
		if !m.Mark(h) {
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
func (m *marker) markDir(p *page, pos triePos) error {
	if p == nil || !m.markPage(p) {
		return nil
	}
	if p.n <= maxDirLeaf {
		return nil // a leaf has inode numbers only, no hashes
	}

	b, err := p.loadDir(m.src, pos, false)
	if err != nil {
		return m.allowMissing(err)
	}

	for i, k := range b.kids {
		if err := m.markDir(k, pos.child(i)); err != nil {
			return err
		}
	}

	return nil
}
