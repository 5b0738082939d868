package tree

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/content"
)

// maxLeft is how many files SealWithout leaves out. If there are more of them, the cause is no
// matter of some files.
const maxLeft = 10_000

// epochWithout is that of pages that only SealWithout has.
const epochWithout = math.MaxUint64

// SealWithout seals a frozen state without the contents of files that cannot be sealed, and
// returns these by inode. In the state whose id it returns they are empty.
func SealWithout(ctx context.Context, src *Source, z *content.Sealer, s *State) (id cas.Hash, left map[uint64]*content.Content, err error) {
	left = make(map[uint64]*content.Content)
	err = eachUnsealed(s.root, func(n *Inode) error {
		if n.Content.Sealed() != nil {
			return nil
		}
		err := guard.Do(func() error { _, err := z.Seal(ctx, n.Content); return err })
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, content.ErrTurnOver) || errs.Of(err) == errs.NoSpace || len(left) == maxLeft:
			return err
		default:
			left[n.Ino] = n.Content
		}
		return nil
	})
	if err != nil {
		return id, nil, fmt.Errorf("seal: %w", err)
	}
	rest := s.Clone()
	for ino := range left {
		n, err := rest.Own(src, epochWithout, ino)
		if err != nil {
			return id, nil, fmt.Errorf("seal: %w", err)
		}
		n.Content = nil
	}
	id, err = Seal(ctx, src, z, rest)
	return id, left, err
}

// eachUnsealed calls fn for the inodes in memory on pages that are not sealed.
func eachUnsealed(p *page, fn func(n *Inode) error) error {
	b := p.unsealed()
	if b == nil {
		return nil
	}
	for _, k := range b.kids {
		if err := eachUnsealed(k, fn); err != nil {
			return err
		}
	}
	if b.leaf == nil {
		return nil
	}
	for i := range tableFan {
		if n := b.leaf.cell(i); n != nil {
			if err := fn(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fill gives files of a loaded state contents that it was sealed without. An epoch that is past
// when the state is used owns them.
func (s *State) Fill(src *Source, epoch uint64, contents map[uint64]cas.Hash) error {
	for ino, h := range contents {
		c, err := content.Load(src.Files, h, epoch)
		if err != nil {
			return fmt.Errorf("load the content of inode %d: %w", ino, err)
		}
		n, err := s.Own(src, epoch, ino)
		if err != nil {
			return err
		}
		n.Content = c
	}
	return nil
}
