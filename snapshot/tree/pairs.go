package tree

import "context"

// A pairWalk goes through two tables together and calls fn for the inodes of one number
// that are not known to be the same. With added, it also calls fn for inodes that only b
// has; a's is nil then.
type pairWalk struct {
	ctx   context.Context
	src   *Source
	added bool
	fn    func(a, b *Inode) error
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

// load returns what a page of height hp says, as one of height h would.
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
		if !y.has(i) || !x.has(i) && !w.added || x.has(i) && x.sameRecord(y, i) {
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
