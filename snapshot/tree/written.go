package tree

import (
	"context"
	"fmt"

	"github.com/amberfs/amberfs/snapshot/content"
)

// inodeBytes and linkBytes are the approximate sizes of an inode with one name and of each further
// name.
const (
	inodeBytes = 512
	linkBytes  = 64
)

// EachWrittenPiece calls fn for the parts of each inode of b that the inode with the same number in a does not
// have: the pieces of files, and a piece without a key for each inode that is new or has grown. The cost depends
// on the differences between a and b.
func EachWrittenPiece(ctx context.Context, src *Source, a, b *State, fn func(content.Piece)) error {
	w := pairWalk{ctx: ctx, src: src, wantChanged: true, wantAdded: true, fn: func(before, n *Inode) error {
		if before == nil {
			before = &Inode{}
		}
		if grown := n.weight() - before.weight(); grown > 0 {
			fn(content.Piece{Bytes: grown})
		}

		return n.Content.NewPieces(src.Files, before.Content, fn)
	}}
	if err := w.compareTables(a.root, a.height, b.root, b.height, 0); err != nil {
		return fmt.Errorf("count what was written: %w", err)
	}

	return nil
}

// weight is the approximate size of an inode without its contents.
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
