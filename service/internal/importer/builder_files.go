package importer

import (
	"errors"
	"fmt"
	"io"
	"path"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// File implements gitbridge.Sink.
func (b *Builder) File(p string, m gitbridge.Meta, size int64, r io.Reader) error {
	p, err := b.accept(p, metaSize(m))
	if err != nil {
		return err
	}
	n := b.node(m)
	if err := b.enter(p, n); err != nil {
		return err
	}
	if later, ok := r.(*gitbridge.LaterReader); ok {
		n.Content = content.New(b.epoch)
		if err := n.Content.Write(b.src.Files, 0, size, later.Position, later.Position); err != nil {
			return err
		}
		return b.put(n)
	}
	if size > small {
		return b.chunk(p, n, size, r)
	}
	return b.later(p, n, int(size), r)
}

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

// Symlink implements gitbridge.Sink.
func (b *Builder) Symlink(p, target string, m gitbridge.Meta) error {
	p, err := b.accept(p, metaSize(m)+len(target))
	if err != nil {
		return err
	}
	m.Mode = unix.S_IFLNK | 0o777
	n := b.node(m)
	n.Target = target
	if err := b.enter(p, n); err != nil {
		return err
	}
	return b.put(n)
}

// Hardlink implements gitbridge.Sink.
func (b *Builder) Hardlink(p, oldpath string) error {
	p, err := b.accept(p, 0)
	if err != nil {
		return err
	}
	oldpath = path.Join(b.top, oldpath)
	if err := b.wait(); err != nil { // a worker may still have the inode
		return err
	}
	n, err := b.file(oldpath)
	if err != nil || p == oldpath {
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
		return nil, fmt.Errorf("%w: a hard link to %q, which is no file that came before", gitbridge.ErrHostile, p)
	}
	return b.state.Own(b.src, b.epoch, n.Ino)
}

// Special implements gitbridge.Sink.
func (b *Builder) Special(p string, m gitbridge.Meta, rdev uint32) error {
	p, err := b.accept(p, metaSize(m))
	if err != nil {
		return err
	}
	n := b.node(m)
	n.Rdev = rdev
	if err := b.enter(p, n); err != nil {
		return err
	}
	return b.put(n)
}
