package tree

import (
	"fmt"
	"math/bits"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// The table maps inode numbers to inodes: a radix tree of 64-way pages. A
// table of height h is for the numbers below 64^h. The pages of height 1 are leaves.
const (
	tableBits   = 6
	tableFanout = 1 << tableBits
)

// PageInodes is the number of consecutive inode numbers in a leaf of the table. The first is a multiple of
// PageInodes.
const PageInodes = tableFanout

// slot returns the index of ino in a table page of the given height.
func slot(ino uint64, height int) int {
	return int(ino>>(tableBits*(height-1))) & (tableFanout - 1)
}

// heightFor returns the height of the lowest table that has a slot for ino.
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

// loadTable returns the body of the page p of a table. height is the height of p, and ino an inode number in the range
// of p. loadTable checks the first inode number of a leaf, so that one leaf cannot be at two positions. keep is as in
// Source.loadBody.
func (p *page) loadTable(src *Source, height int, ino uint64, keep bool) (*body, error) {
	k := tableKind(height)
	b, err := p.load(src, keep, k, k)
	if err != nil {
		return nil, err
	}
	if b.leaf != nil && b.leaf.index != ino/tableFanout {
		return nil, fmt.Errorf("%w: inodes from %d on where those from %d on belong", ErrMalformed, b.leaf.index*tableFanout, ino&^(tableFanout-1))
	}

	return b, nil
}

// GroupInodes is the number of consecutive inode numbers whose leaves are below one page of the table.
const GroupInodes = tableFanout * PageInodes

// GroupPages returns the hashes of the leaves in the group of an inode number (see GroupInodes), without the leaves
// that are in memory.
func (s *State) GroupPages(src *Source, ino uint64) (hashes []cas.Hash, err error) {
	if ino > MaxIno || heightFor(ino) > s.height {
		return nil, nil
	}
	p := s.root

	for h := s.height; h > 1 && p != nil; h-- {
		b, err := p.loadTable(src, h, ino, true)
		if err != nil {
			return nil, err
		}
		if p = b.kids[slot(ino, h)]; h > 2 {
			continue
		}

		for _, leaf := range b.kids {
			if leaf == nil || leaf.hash.Load() == nil {
				continue
			}
			if _, cached := src.pages.Get(*leaf.hash.Load()); !cached {
				hashes = append(hashes, *leaf.hash.Load())
			}
		}
	}

	return hashes, nil
}

// ownTable makes *pp a page that epoch may change and returns its body. It creates a missing page,
// and copies a page of another epoch.
func ownTable(src *Source, epoch uint64, pp **page, height int, ino uint64) (*body, error) {
	p := *pp
	if p == nil {
		b := &body{kind: tableKind(height)}
		if height == 1 {
			b.leaf = &tableLeaf{index: ino / tableFanout}
		} else {
			b.kids = make([]*page, tableFanout)
		}

		*pp = newPage(epoch, b)
		return b, nil
	}

	b, err := p.loadTable(src, height, ino, true)
	if err != nil || p.ownedBy(epoch) {
		return b, err
	}

	c := &body{kind: b.kind}
	if height == 1 {
		c.leaf = b.leaf.clone()
	} else {
		c.kids = append(make([]*page, 0, tableFanout), b.kids...)
	}

	src.copiedBytes.Add(c.weight())
	*pp = newPage(epoch, c)

	return c, nil
}

// leafOf returns the leaf with the slot of ino, nil if the table does not have the leaf.
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

// ownLeaf returns the leaf with the slot of ino, as a leaf that epoch may change. If the table does not have the leaf,
// ownLeaf returns nil or, with create, creates the leaf and the pages above it.
func (s *State) ownLeaf(src *Source, epoch, ino uint64, create bool) (*tableLeaf, error) {
	if !create && heightFor(ino) > s.height {
		return nil, nil
	}
	// The id is dropped even if no inode changes. Mark relies on this: if a state has an id, the hash of its
	// root page is the hash in the state object.
	s.id.Store(nil)

	for s.height < heightFor(ino) {
		if s.root != nil {
			kids := make([]*page, tableFanout)
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

// removeInode empties ino's slot at or below the page *pp, and sets pages without inodes to nil.
func removeInode(src *Source, epoch uint64, pp **page, height int, ino uint64) error {
	b, err := ownTable(src, epoch, pp, height, ino)
	if err != nil {
		return err
	}

	if height == 1 {
		b.leaf.set(slot(ino, 1), nil)
		if b.leaf.isEmpty() {
			*pp = nil
		}

		return nil
	}

	if err := removeInode(src, epoch, &b.kids[slot(ino, height)], height-1, ino); err != nil {
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

// shrink lowers the table as far as its highest inode number allows, so that equal tables have equal
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
