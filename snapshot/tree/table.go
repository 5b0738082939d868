package tree

import (
	"fmt"
	"math/bits"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// The table maps inode numbers to inodes: a radix tree of 64-way pages. A
// table of height h holds the numbers below 64^h; the page at height 1 is a leaf.
const (
	tableBits = 6
	tableFan  = 1 << tableBits
)

// PageInodes is how many inode numbers share a leaf of the table: those with the same quotient by
// it.
const PageInodes = tableFan

// slot returns ino's place in a table page of the given height.
func slot(ino uint64, height int) int {
	return int(ino>>(tableBits*(height-1))) & (tableFan - 1)
}

// heightFor returns the height of the lowest table that can hold ino.
func heightFor(ino uint64) int {
	return max(1, (bits.Len64(ino)+tableBits-1)/tableBits)
}

// tableKind returns the kind of the pages at a height.
func tableKind(height int) byte {
	if height == 1 {
		return wire.KindTableLeaf
	}
	return wire.KindTableInner
}

// loadTable returns the body of a page of the table that an inode number belongs on. A leaf has its
// first number, so that it cannot be at two places.
func (p *page) loadTable(src *Source, height int, ino uint64, keep bool) (*body, error) {
	k := tableKind(height)
	b, err := p.load(src, keep, k, k)
	if err == nil && b.leaf != nil && b.leaf.number != ino/tableFan {
		return nil, fmt.Errorf("%w: inodes from %d on where those from %d on belong", ErrMalformed, b.leaf.number*tableFan, ino&^(tableFan-1))
	}
	return b, err
}

// ownTable makes *pp a page that epoch may change, copying its contents, and
// returns its body.
func ownTable(src *Source, epoch uint64, pp **page, height int, ino uint64) (*body, error) {
	p := *pp
	if p == nil {
		b := &body{kind: tableKind(height)}
		if height == 1 {
			b.leaf = &tableLeaf{number: ino / tableFan}
		} else {
			b.kids = make([]*page, tableFan)
		}
		*pp = newPage(epoch, b)
		return b, nil
	}
	b, err := p.loadTable(src, height, ino, true)
	if err != nil || p.owned(epoch) {
		return b, err
	}
	c := &body{kind: b.kind}
	if height == 1 {
		c.leaf = b.leaf.clone()
	} else {
		c.kids = append(make([]*page, 0, tableFan), b.kids...)
	}
	src.copied.Add(c.weight())
	*pp = newPage(epoch, c)
	return c, nil
}

// leafOf returns the leaf that ino belongs in, nil if there is none.
func (s *State) leafOf(src *Source, ino uint64) (*tableLeaf, error) {
	if ino > MaxIno || heightFor(ino) > s.height {
		return nil, nil
	}
	p := s.root
	for h := s.height; ; h-- {
		if p == nil {
			return nil, nil
		}
		b, err := p.loadTable(src, h, ino, true)
		if err != nil {
			return nil, err
		}
		if h == 1 {
			return b.leaf, nil
		}
		p = b.kids[slot(ino, h)]
	}
}

// ownLeaf returns the leaf that ino belongs in, for epoch to change. With create it makes
// the leaf, and a higher table, when they are missing; else it returns nil then.
func (s *State) ownLeaf(src *Source, epoch, ino uint64, create bool) (*tableLeaf, error) {
	if !create && heightFor(ino) > s.height {
		return nil, nil
	}
	// A state with an id has the root page that its object names: Mark relies on it.
	s.id.Store(nil)
	for s.height < heightFor(ino) {
		if s.root != nil {
			kids := make([]*page, tableFan)
			kids[0] = s.root
			s.root = newPage(epoch, &body{kind: wire.KindTableInner, kids: kids})
		}
		s.height++
	}
	pp := &s.root
	for h := s.height; create || *pp != nil; h-- {
		b, err := ownTable(src, epoch, pp, h, ino)
		if err != nil {
			return nil, fmt.Errorf("inode %d: %w", ino, err)
		}
		if h == 1 {
			return b.leaf, nil
		}
		pp = &b.kids[slot(ino, h)]
	}
	return nil, nil
}

// removeFrom empties ino's slot below *pp and drops the pages that this leaves
// empty.
func removeFrom(src *Source, epoch uint64, pp **page, height int, ino uint64) error {
	b, err := ownTable(src, epoch, pp, height, ino)
	if err != nil {
		return err
	}
	if height == 1 {
		b.leaf.set(slot(ino, 1), nil)
		if b.leaf.empty() {
			*pp = nil
		}
		return nil
	}
	if err := removeFrom(src, epoch, &b.kids[slot(ino, height)], height-1, ino); err != nil {
		return err
	}
	for _, k := range b.kids {
		if k != nil {
			return nil
		}
	}
	*pp = nil
	return nil
}

// shrink lowers a table after its highest numbers were removed, so that equal tables have equal
// pages. A table whose root cannot be read keeps its height.
func (s *State) shrink(src *Source) {
	for s.height > 1 && s.root != nil {
		b, err := s.root.loadTable(src, s.height, 0, true)
		if err != nil {
			return
		}
		for _, k := range b.kids[1:] {
			if k != nil {
				return
			}
		}
		s.root = b.kids[0]
		s.height--
	}
	if s.root == nil {
		s.height = 0
	}
}
