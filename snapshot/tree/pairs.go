package tree

import (
	"context"
	"fmt"
)

// A pairWalk compares the tables of two states by inode number. It calls fn for inodes that are
// not known to be the same if changed is set, and for those that only b has, with a nil a, if added
// is set.
type pairWalk struct {
	ctx            context.Context
	src            *Source
	changed, added bool
	fn             func(a, b *Inode) error
}

// Beyond calls fn for each inode that the state has and another one does not. What both share
// is not read.
func (s *State) Beyond(src *Source, other *State, fn func(n *Inode)) error {
	w := pairWalk{ctx: context.Background(), src: src, added: true, fn: func(_, n *Inode) error {
		fn(n)
		return nil
	}}
	if err := w.tables(other.root, other.height, s.root, s.height, 0); err != nil {
		return fmt.Errorf("compare tables of inodes: %w", err)
	}
	return nil
}

// tables looks at two pages, of the heights ha and hb, whose first inode number is base.
func (w *pairWalk) tables(a *page, ha int, b *page, hb int, base uint64) error {
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
		return w.leaves(x.leaf, y.leaf, base)
	}
	for i := range tableFan {
		if err := w.tables(x.kids[i], min(ha, h-1), y.kids[i], min(hb, h-1), base+uint64(i)<<(tableBits*(h-1))); err != nil {
			return err
		}
	}
	return nil
}

// load returns the body of a page of height hp; if h is more, that of a page above it.
func (w *pairWalk) load(p *page, hp, h int, base uint64) (*body, error) {
	if hp == h {
		return p.loadTable(w.src, h, base, true)
	}
	b := &body{kids: make([]*page, tableFan), leaf: &tableLeaf{}}
	b.kids[0] = p
	return b, nil
}

func (w *pairWalk) leaves(x, y *tableLeaf, base uint64) error {
	for i := range tableFan {
		switch both := x.has(i); {
		case !y.has(i), !both && !w.added, both && (!w.changed || x.sameRecord(y, i)):
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
