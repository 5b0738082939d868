package tree

import (
	"context"

	"github.com/amberfs/amberfs/cas"
)

// A Finder finds inodes in many states that share pages. It reads each sealed page of their tables once.
type Finder struct {
	Source *Source
	// Match reports whether FindIn returns an inode. It is called once for the inodes of a sealed page,
	// so the result must not depend on the state.
	Match func(n *Inode) (bool, error)

	found map[cas.Hash][]uint64 // by the hash of a page: the matching inodes on the page and below it
}

// FindIn returns the numbers of the matching inodes in a frozen state, in ascending order.
func (f *Finder) FindIn(ctx context.Context, s *State) ([]uint64, error) {
	if f.found == nil {
		f.found = make(map[cas.Hash][]uint64)
	}
	return f.inPage(ctx, s.root, s.height, 0)
}

func (f *Finder) inPage(ctx context.Context, p *page, height int, base uint64) (all []uint64, err error) {
	if p == nil {
		return nil, nil
	}
	id, sealed := p.id()
	if known, ok := f.found[id]; sealed && ok {
		return known, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	b, err := p.loadTable(f.Source, height, base, false)
	if err != nil {
		return nil, err
	}

	for i, k := range b.kids {
		below, err := f.inPage(ctx, k, height-1, base+uint64(i)<<(tableBits*(height-1)))
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}

	if b.leaf != nil {
		if all, err = f.inLeaf(b.leaf, base); err != nil {
			return nil, err
		}
	}
	if sealed {
		f.found[id] = all
	}

	return all, nil
}

func (f *Finder) inLeaf(l *tableLeaf, base uint64) (all []uint64, err error) {
	for i := range tableFanout {
		n, err := l.get(f.Source, i, base+uint64(i))
		if err != nil {
			return nil, err
		}
		if n == nil {
			continue
		}

		matches, err := f.Match(n)
		if err != nil {
			return nil, err
		}
		if matches {
			all = append(all, n.Ino)
		}
	}
	return all, nil
}
