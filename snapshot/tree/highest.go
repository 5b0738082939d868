package tree

import "fmt"

// HighestIno returns the highest inode number of the state. It reads one page at each
// height.
func (s *State) HighestIno(src *Source) (uint64, error) {
	p, base := s.root, uint64(0)
	for h := s.height; h > 0 && p != nil; h-- {
		b, err := p.loadTable(src, h, base, true)
		if err != nil {
			return 0, fmt.Errorf("highest inode: %w", err)
		}

		last := lastSlot(b)
		base += uint64(last) << (tableBits * (h - 1))
		if h > 1 {
			p = b.kids[last]
		}
	}

	return base, nil
}

// lastSlot returns the last slot in use of a table page.
func lastSlot(b *body) int {
	for i := tableFanout - 1; i > 0; i-- {
		if b.leaf != nil && b.leaf.has(i) || b.leaf == nil && b.kids[i] != nil {
			return i
		}
	}
	return 0
}
