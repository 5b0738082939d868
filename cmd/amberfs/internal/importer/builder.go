package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// workers is how many batches of small files are chunked at a time.
	workers = 4
	// small is the size in bytes up to which a file is held in memory, so that
	// the source can go on while it is chunked.
	small = 1 << 20
	// epoch of the tree that is built: there is only one.
	epoch = 1
)

// Builder takes a tree. Its methods are called by one goroutine.
type Builder struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	src    *tree.Source
	sealer *tree.Sealer
	pool   *pool
	batch  *batch // of small files, being filled

	next  uint64
	root  *tree.Inode
	nodes map[string]*tree.Inode // by path, "." is the root

	mu    sync.Mutex // of state, which workers change too
	state *tree.State
	files int64
	bytes int64
}

var _ gitbridge.Sink = (*Builder)(nil)

// New begins an empty tree, whose root directory gets root's attributes until
// the source tells others.
func New(ctx context.Context, src *tree.Source, objects tree.ObjectStore, root gitbridge.Meta) *Builder {
	b := &Builder{
		src:    src,
		sealer: &tree.Sealer{Src: src, Objects: objects, Workers: workers},
		next:   tree.RootIno,
		nodes:  map[string]*tree.Inode{},
	}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.pool = newPool(workers, b.cancel)
	root.Mode = unix.S_IFDIR | root.Mode&0o7777
	b.root = b.node(root)
	b.root.Nlink = 2
	b.state = tree.New(epoch, b.root)
	b.nodes["."] = b.root
	return b
}

// node makes an inode without a name.
func (b *Builder) node(m gitbridge.Meta) *tree.Inode {
	n := &tree.Inode{Ino: b.next, Nlink: 1}
	b.next++
	setMeta(n, m)
	n.Btime = m.Mtime
	return n
}

func setMeta(n *tree.Inode, m gitbridge.Meta) {
	n.Mode, n.UID, n.GID = m.Mode, m.UID, m.GID
	n.Atime, n.Mtime, n.Ctime = m.Atime, m.Mtime, m.Mtime
	n.Xattrs = m.Xattrs
}

// Dir implements gitbridge.Sink.
func (b *Builder) Dir(p string, m gitbridge.Meta) error {
	m.Mode = unix.S_IFDIR | m.Mode&0o7777
	if n, ok := b.nodes[p]; ok && n.IsDir() {
		b.mu.Lock()
		defer b.mu.Unlock()
		setMeta(n, m)
		return nil
	}
	n := b.node(m)
	n.Nlink = 2
	parent, err := b.enter(p, n)
	if err != nil {
		return err
	}
	parent.Nlink++
	return b.put(n)
}

// enter gives n its first name, in place of what had that name.
func (b *Builder) enter(p string, n *tree.Inode) (*tree.Inode, error) {
	if b.ctx.Err() != nil {
		return nil, context.Cause(b.ctx)
	}
	dir, name := path.Dir(p), path.Base(p)
	parent, ok := b.nodes[dir]
	if !ok || !parent.IsDir() {
		return nil, fmt.Errorf("%w: %q has no directory", gitbridge.ErrHostile, p)
	}
	if old, ok := b.nodes[p]; ok {
		if err := b.unlink(old, parent.Ino, name); err != nil {
			return nil, err
		}
	}
	n.Links = append(slices.Clone(n.Links), tree.Link{Parent: parent.Ino, Name: name})
	b.nodes[p] = n
	b.mu.Lock()
	defer b.mu.Unlock()
	return parent, parent.Dir.Insert(b.src, epoch, tree.Dirent{Name: name, Ino: n.Ino, Type: n.Mode & unix.S_IFMT})
}

// unlink takes one name from an inode, and the inode away with its last.
func (b *Builder) unlink(n *tree.Inode, parent uint64, name string) error {
	if n.IsDir() {
		return fmt.Errorf("%w: %q is a directory and something else", gitbridge.ErrHostile, name)
	}
	// A worker may still have to put the inode.
	if err := b.settle(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n.Links = slices.DeleteFunc(slices.Clone(n.Links), func(l tree.Link) bool { return l.Parent == parent && l.Name == name })
	if n.Nlink--; n.Nlink > 0 {
		return nil
	}
	b.files--
	b.bytes -= n.Size()
	return b.state.Delete(b.src, epoch, n.Ino)
}

// put makes inodes part of the tree.
func (b *Builder) put(nodes ...*tree.Inode) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range nodes {
		b.files++
		b.bytes += contentSize(n)
		if err := b.state.Put(b.src, epoch, n); err != nil {
			return err
		}
	}
	return nil
}

func contentSize(n *tree.Inode) int64 {
	if n.IsRegular() {
		return n.Content.Size()
	}
	return 0
}

// File implements gitbridge.Sink.
func (b *Builder) File(p string, m gitbridge.Meta, size int64, r io.Reader) error {
	n := b.node(m)
	if _, err := b.enter(p, n); err != nil {
		return err
	}
	if sparse, ok := r.(gitbridge.SparseReader); ok {
		return b.sparse(p, n, size, sparse)
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
		base, err := tree.ChunkReader(b.ctx, b.sealer, io.LimitReader(r, size))
		if err != nil {
			return fmt.Errorf("storing %s: %w", p, err)
		}
		if base.Size != size {
			return fmt.Errorf("reading %s: %w", p, shorter(io.ErrUnexpectedEOF))
		}
		n.Content = tree.ContentOf(base)
	}
	return b.put(n)
}

// sparse stores only the parts of a file that are not holes.
func (b *Builder) sparse(p string, n *tree.Inode, size int64, r gitbridge.SparseReader) error {
	c := tree.NewContent(epoch)
	if err := c.Truncate(b.src, size); err != nil {
		return fmt.Errorf("storing %s: %w", p, err)
	}
	for {
		at, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", p, shorter(err))
		}
		part := &partReader{r: r}
		base, err := tree.ChunkReader(b.ctx, b.sealer, part)
		if err == nil {
			err = part.err
		}
		if err != nil {
			return fmt.Errorf("storing %s: %w", p, shorter(err))
		}
		if at < 0 || base.Size > size-at {
			return fmt.Errorf("%w: %s is longer than its size", gitbridge.ErrHostile, p)
		}
		if err := c.CloneRange(b.src, at, tree.ContentOf(base), 0, base.Size); err != nil {
			return fmt.Errorf("storing %s: %w", p, err)
		}
	}
	n.Content = c
	return b.put(n)
}

// partReader remembers an end that came too early, which ChunkReader takes for
// the end.
type partReader struct {
	r   io.Reader
	err error
}

func (p *partReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if err != nil && err != io.EOF {
		p.err = err
	}
	return n, err
}

// Symlink implements gitbridge.Sink.
func (b *Builder) Symlink(p, target string, m gitbridge.Meta) error {
	m.Mode = unix.S_IFLNK | 0o777
	n := b.node(m)
	n.Target = target
	if _, err := b.enter(p, n); err != nil {
		return err
	}
	return b.put(n)
}

// Hardlink implements gitbridge.Sink.
func (b *Builder) Hardlink(p, oldpath string) error {
	n, ok := b.nodes[oldpath]
	if !ok || n.IsDir() {
		return fmt.Errorf("%w: %q is a hard link to %q, which is no file that came before", gitbridge.ErrHostile, p, oldpath)
	}
	if b.nodes[p] == n {
		return nil
	}
	if err := b.settle(); err != nil { // a worker may still have the inode
		return err
	}
	_, err := b.enter(p, n)
	n.Nlink++
	return err
}

// Special implements gitbridge.Sink.
func (b *Builder) Special(p string, m gitbridge.Meta, rdev uint32) error {
	n := b.node(m)
	n.Rdev = rdev
	if _, err := b.enter(p, n); err != nil {
		return err
	}
	return b.put(n)
}

// Close lets go of everything when the tree is finished, or given up.
func (b *Builder) Close() {
	b.cancel(context.Canceled)
	b.pool.close()
}

// Finish seals the tree.
func (b *Builder) Finish() (*tree.State, error) {
	if err := b.settle(); err != nil {
		return nil, err
	}
	b.state.Bytes = b.bytes
	if _, _, err := b.sealer.Seal(b.ctx, b.state); err != nil {
		return nil, err
	}
	return b.state, nil
}

// Totals are how many files, directories included, and bytes came.
func (b *Builder) Totals() (files, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.files, b.bytes
}
