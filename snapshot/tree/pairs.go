package tree

import (
	"context"
	"fmt"
)

// A pairWalk compares the tables of two states a and b by inode number. If wantChanged is set, it calls fn for
// each number that both tables have, with the inodes of a and b, unless they are known to be equal. If wantAdded
// is set, it calls fn for each inode that only b has, with nil for the inode of a.
type pairWalk struct {
	ctx                    context.Context
	src                    *Source
	wantChanged, wantAdded bool
	fn                     func(a, b *Inode) error
}

// EachNotIn calls fn for each inode of s whose number the state other does not have. It does not read pages of s
// that are known to be equal to pages of other.
func (s *State) EachNotIn(src *Source, other *State, fn func(n *Inode)) error {
	w := pairWalk{ctx: context.Background(), src: src, wantAdded: true, fn: func(_, n *Inode) error {
		fn(n)
		return nil
	}}
	if err := w.compareTables(other.root, other.height, s.root, s.height, 0); err != nil {
		return fmt.Errorf("compare tables of inodes: %w", err)
	}

	return nil
}

// compareTables compares two pages whose first inode number is base. heightA and heightB are their heights in the
// tables.
func (w *pairWalk) compareTables(a *page, heightA int, b *page, heightB int, base uint64) error {
	if b == nil || a == nil && !w.wantAdded || a != nil && heightA == heightB && samePage(a, b) {
		return nil
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if a == nil {
		heightA = 0
	}

	h := max(heightA, heightB)
	x, err := w.load(a, heightA, h, base)
	if err != nil {
		return err
	}

	y, err := w.load(b, heightB, h, base)
	if err != nil {
		return err
	}
	if h == 1 {
		return w.compareLeaves(x.leaf, y.leaf, base)
	}

	for i := range tableFanout {
		if err := w.compareTables(x.kids[i], min(heightA, h-1), y.kids[i], min(heightB, h-1), base+uint64(i)<<(tableBits*(h-1))); err != nil {
			return err
		}
	}

	return nil
}

// load returns the body of a page of pageHeight. If height is higher, it returns the body of an inner page with p
// as its first kid: the table with the root p has no numbers for the other kids.
func (w *pairWalk) load(p *page, pageHeight, height int, base uint64) (*body, error) {
	if pageHeight == height {
		return p.loadTable(w.src, height, base, true)
	}
	b := &body{kids: make([]*page, tableFanout), leaf: &tableLeaf{}}
	b.kids[0] = p
	return b, nil
}

// compareLeaves compares the inodes of two leaves whose first inode number is base. It calls w.fn for the inodes
// that w.wantChanged and w.wantAdded select.
func (w *pairWalk) compareLeaves(x, y *tableLeaf, base uint64) error {
	for i := range tableFanout {
		switch both := x.has(i); {
		case !y.has(i), !both && !w.wantAdded, both && (!w.wantChanged || x.sameInode(y, i)):
			continue
		}

		n, err := x.get(w.src, i, base+uint64(i))
		if err != nil {
			return err
		}

		m, err := y.get(w.src, i, base+uint64(i))
		if err != nil {
			return err
		}
		if err := w.fn(n, m); err != nil {
			return err
		}
	}
	return nil
}
