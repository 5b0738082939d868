package tree

import (
	"context"
	"fmt"

	"github.com/amberfs/amberfs/snapshot/content"
)

// inodeBytes and linkBytes are what an inode and each further name of one are
// counted as: about what they take.
const (
	inodeBytes = 512
	linkBytes  = 64
)

// Written calls fn for what b has and a has not in the same inode: the pieces of
// files, and for each inode that is new or has grown a piece without a key. It costs
// what the states differ in.
func Written(ctx context.Context, src *Source, a, b *State, fn func(content.Piece)) error {
	w := writtenWalk{ctx, src, fn}
	if err := w.tables(a.root, a.height, b.root, b.height, 0); err != nil {
		return fmt.Errorf("count what was written: %w", err)
	}
	return nil
}

type writtenWalk struct {
	ctx context.Context
	src *Source
	fn  func(content.Piece)
}

// tables looks at two pages of the table, of the heights ha and hb; a may be nil.
func (w *writtenWalk) tables(a *page, ha int, b *page, hb int, base uint64) error {
	if b == nil || a != nil && ha == hb && samePage(a, b) {
		return nil
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	x := &body{leaf: &tableLeaf{}, kids: make([]*page, tableFan)}
	if a != nil {
		var err error
		if x, err = a.loadTable(w.src, ha, base, false); err != nil {
			return err
		}
	}
	if a != nil && ha > hb {
		return w.tables(x.kids[0], ha-1, b, hb, base)
	}
	y, err := b.loadTable(w.src, hb, base, false)
	if err != nil {
		return err
	}
	if hb == 1 {
		return w.leaves(x.leaf, y.leaf, base)
	}
	for i, kid := range y.kids {
		var before *page
		hx := hb - 1
		switch {
		case a != nil && ha == hb:
			before = x.kids[i]
		case a != nil && i == 0:
			before, hx = a, ha
		}
		if err := w.tables(before, hx, kid, hb-1, base+uint64(i)<<(tableBits*(hb-1))); err != nil {
			return err
		}
	}
	return nil
}

func (w *writtenWalk) leaves(x, y *tableLeaf, base uint64) error {
	for i := range tableFan {
		if !y.has(i) || x.has(i) && x.sameRecord(y, i) {
			continue
		}
		n := &Inode{}
		var err error
		if x.has(i) {
			if n, err = x.get(w.src, i, base+uint64(i)); err != nil {
				return err
			}
		}
		m, err := y.get(w.src, i, base+uint64(i))
		if err != nil {
			return err
		}
		if grown := m.weight() - n.weight(); grown > 0 {
			w.fn(content.Piece{Bytes: grown})
		}
		if err := m.Content.Written(w.src.Files, n.Content, w.fn); err != nil {
			return err
		}
	}
	return nil
}

// weight is what an inode takes beside its contents, about.
func (n *Inode) weight() int64 {
	if n.Ino == 0 {
		return 0
	}
	bytes := inodeBytes + len(n.Target) + linkBytes*max(0, len(n.Links)-1)
	for _, x := range n.Xattrs {
		bytes += len(x.Name) + len(x.Value)
	}
	return int64(bytes)
}
