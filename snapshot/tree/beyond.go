package tree

import "fmt"

// Beyond calls fn for each inode that the state has and another one does not. What both share
// is not read.
func (s *State) Beyond(src *Source, other *State, fn func(n *Inode)) error {
	height := max(s.height, other.height)
	a, b := raised{s.root, height - s.height}, raised{other.root, height - other.height}
	if err := beyond(src, a, b, height, 0, fn); err != nil {
		return fmt.Errorf("compare tables of inodes: %w", err)
	}
	return nil
}

// raised is a page of a table, seen as part of a higher table.
type raised struct {
	page *page
	by   int
}

// kids returns what is below, nil for nothing.
func (r raised) kids(src *Source, height int, base uint64) (kids [tableFan]raised, err error) {
	switch {
	case r.page == nil:
	case r.by > 0:
		kids[0] = raised{r.page, r.by - 1}
	default:
		b, err := r.page.loadTable(src, height, base, true)
		if err != nil {
			return kids, err
		}
		for i, k := range b.kids {
			kids[i] = raised{page: k}
		}
	}
	return kids, nil
}

func beyond(src *Source, a, b raised, height int, base uint64, fn func(n *Inode)) error {
	if a.page == nil || a.by == b.by && samePage(a.page, b.page) {
		return nil
	}
	if height == 1 {
		return beyondLeaf(src, a.page, b.page, base, fn)
	}
	below, others, err := [tableFan]raised{}, [tableFan]raised{}, error(nil)
	if below, err = a.kids(src, height, base); err != nil {
		return err
	}
	if others, err = b.kids(src, height, base); err != nil {
		return err
	}
	for i := range below {
		from := base + uint64(i)<<(tableBits*(height-1))
		if err := beyond(src, below[i], others[i], height-1, from, fn); err != nil {
			return err
		}
	}
	return nil
}

func beyondLeaf(src *Source, p, other *page, base uint64, fn func(n *Inode)) error {
	a, err := p.loadTable(src, 1, base, true)
	if err != nil {
		return err
	}
	has := func(int) bool { return false }
	if other != nil {
		b, err := other.loadTable(src, 1, base, true)
		if err != nil {
			return err
		}
		has = b.leaf.has
	}
	for i := range tableFan {
		if !a.leaf.has(i) || has(i) {
			continue
		}
		n, err := a.leaf.get(src, i, base+uint64(i))
		if err != nil {
			return err
		}
		fn(n)
	}
	return nil
}
