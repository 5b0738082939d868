package tree

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas"
)

// Mark calls keep for every object that s needs, sealed or not: the objects
// below an object are visited only when keep answers that it met it for the
// first time. So marking many states costs their number and what they differ in.
//
// With incomplete, an object that is not in the store (cas.ErrNotFound) is passed
// over: what hung below it is lost.
//
// A collection has to mark every state that is in memory besides the stored ones:
// pages that a Seal cut short has sealed are stored, and referred to from there
// only. What a Seal writes meanwhile is for the store to keep.
func (s *State) Mark(ctx context.Context, src *Source, incomplete bool, keep func(cas.Hash) (first bool)) error {
	if id, ok := s.ID(); ok && !keep(id) {
		return nil
	}
	m := marker{ctx: ctx, src: src, incomplete: incomplete, keep: keep}
	return m.table(s.root, s.height, 0)
}

type marker struct {
	ctx  context.Context
	src  *Source
	keep func(cas.Hash) bool

	incomplete bool
}

// passed is nil for an object that may be missing.
func (m *marker) passed(err error) error {
	if m.incomplete && errors.Is(err, cas.ErrNotFound) {
		return nil
	}
	return err
}

// first marks a page, and says whether to go on below it. A page without a hash
// is in memory only, but what it refers to may be stored.
func (m *marker) first(p *page) bool {
	id, ok := p.id()
	return !ok || m.keep(id)
}

// table visits a table page whose first inode number is base.
func (m *marker) table(p *page, height int, base uint64) error {
	if p == nil || !m.first(p) {
		return nil
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}
	b, err := p.loadTable(m.src, height, base, false)
	if err != nil {
		return m.passed(err)
	}
	for i, k := range b.kids {
		if err := m.table(k, height-1, base+uint64(i)<<(tableBits*(height-1))); err != nil {
			return err
		}
	}
	if b.leaf == nil {
		return nil
	}
	for i := range tableFan {
		for _, h := range b.leaf.pieces(i) {
			m.keep(h)
		}
		n, err := b.leaf.get(m.src, i, base+uint64(i))
		if err = m.passed(err); err != nil {
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
		if !m.keep(h) {
			return false, nil
		}
		if isList && m.incomplete {
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
		return m.passed(err)
	}
	for i, k := range b.kids {
		if err := m.dir(k, at.down(i)); err != nil {
			return err
		}
	}
	return nil
}
