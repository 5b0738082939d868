package importer

import (
	"errors"
	"fmt"
	"io"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// shorter says in words that a file ended too early.
func shorter(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it became shorter while it was read")
	}
	return err
}

// chunk stores the contents of a file and puts it into the tree.
func (b *Builder) chunk(p string, n *tree.Inode, size int64, r io.Reader) error {
	if size > 0 {
		base, err := content.FromReader(b.ctx, b.sealer, io.LimitReader(r, size))
		if err != nil {
			return fmt.Errorf("storing %s: %w", p, err)
		}
		if base.Size != size {
			return fmt.Errorf("reading %s: %w", p, shorter(io.ErrUnexpectedEOF))
		}
		n.Content = content.Of(base)
	}
	return b.put(n)
}

// hardlink gives a file that came before another name.
func (b *Builder) hardlink(p, old string) error {
	if err := b.wait(); err != nil { // a worker may still have the inode
		return err
	}
	n, err := b.file(old)
	if err != nil || p == old {
		return err
	}
	if err := b.enter(p, n); err != nil {
		return err
	}
	n.Nlink++
	return nil
}

// file returns a file that came before, to be changed.
func (b *Builder) file(p string) (*tree.Inode, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.state.Resolve(b.src, p)
	if err != nil || n.IsDir() {
		return nil, fmt.Errorf("%w: a hard link to %q, which is not an earlier file of the archive", gitbridge.ErrHostile, p)
	}
	return b.state.Own(b.src, b.epoch, n.Ino)
}
