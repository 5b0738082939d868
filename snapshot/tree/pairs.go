package tree

import (
	"context"
	"fmt"
)

// A pairWalk compares the tables of two states a and b by inode number. If changed is set, it calls fn for each
// number that both tables have, with the inodes of a and b, unless they are known to be equal. If added is set,
// it calls fn for each inode that only b has, with nil for the inode of a.
type pairWalk struct {
	ctx            context.Context
	src            *Source
	changed, added bool
	fn             func(a, b *Inode) error
}

// Beyond calls fn for each inode of s whose number other does not have. It does not read pages of s that are
// known to be equal to pages of other.
func (s *State) Beyond(src *Source, other *State, fn func(n *Inode)) error {
	w := pairWalk{ctx: context.Background(), src: src, added: true, fn: func(_, n *Inode) error {
		fn(n)
		return nil
	}}
	if err := w.compareTables(other.root, other.height, s.root, s.height, 0); err != nil {
		return fmt.Errorf("compare tables of inodes: %w", err)
	}

	return nil
}

// compareTables compares two pages whose first inode number is base. ha and hb are their heights.
func (w *pairWalk) compareTables(a *page, ha int, b *page, hb int, base uint64) error {
	if b == nil || a == nil && !w.added || a != nil && ha == hb && samePage(a, b) {
		return nil
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if a == nil {
		ha = 0
	}

	h := max(ha, hb)
	x, err := w.load(a, ha, h, base)
	if err != nil {
		return err
	}

	y, err := w.load(b, hb, h, base)
	if err != nil {
		return err
	}
	if h == 1 {
		return w.compareLeaves(x.leaf, y.leaf, base)
	}

	for i := range tableFan {
		if err := w.compareTables(x.kids[i], min(ha, h-1), y.kids[i], min(hb, h-1), base+uint64(i)<<(tableBits*(h-1))); err != nil {
			return err
		}
	}

	return nil
}

// load returns the body of a page of height hp. If h is higher than hp, it returns the body of an inner page with
// p as its first kid: the table with the root p has no numbers for the other kids.
func (w *pairWalk) load(p *page, hp, h int, base uint64) (*body, error) {
	if hp == h {
		return p.loadTable(w.src, h, base, true)
	}
	b := &body{kids: make([]*page, tableFan), leaf: &tableLeaf{}}
	b.kids[0] = p
	return b, nil
}

// compareLeaves compares the inodes of two leaves whose first inode number is base. It calls w.fn for those that
// w.changed and w.added select.
func (w *pairWalk) compareLeaves(x, y *tableLeaf, base uint64) error {
	for i := range tableFan {
		switch both := x.has(i); {
		case !y.has(i), !both && !w.added, both && (!w.changed || x.sameInode(y, i)):
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
