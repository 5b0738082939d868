package importer

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// maxWorkers is how many chunks of a file are stored at a time.
	maxWorkers = 4
	// maxUnsealed is the memory for the tree, in bytes, before it is sealed.
	maxUnsealed = 32 << 20
	// maxCopied is the memory for sealed pages that are changed again.
	maxCopied = 32 << 20
	// inodeSize is what an inode takes, with its directory entry and its page.
	inodeSize = 1 << 10
)

// maxRead is how many files with several names can come again. Others get new numbers.
const maxRead = 1 << 17

// Memory is about what a Builder and its source take, in bytes, whatever comes.
const Memory = 80 << 20

// At says where the tree of an import goes.
type At struct {
	Dir  string         // everything goes there, once it is made
	Made gitbridge.Meta // of the root and of directories that the source leaves out, until it gives others
	Top  bool           // the root is that of a workspace, where some names are taken
}

// Builder takes a tree. Its methods are called by one goroutine.
//
// Whatever comes, it holds a bounded part of the tree in memory: from time to
// time it seals what there is, and goes on in another epoch.
type Builder struct {
	ctx    context.Context
	src    *tree.Source
	sealer *content.Sealer
	at     At

	next     uint64
	limit    int               // of unsealed
	unsealed int               // bytes of memory, about
	copied   atomic.Int64      // the same, of pages that are changed again
	dirs     map[string]uint64 // inodes of directories that were used lately, by path

	epoch   uint64
	state   *tree.State
	storing []*storing      // files of the state
	read    map[uint64]bool // files with several names that came again; nil if it did not begin with a tree
}

// storing is a file whose contents are being stored.
type storing struct {
	*content.PendingFile
	path string
	node *tree.Inode
}

// maxStoring is how many files of the source are read before the first of them is stored.
const maxStoring = 64

// New begins an empty tree.
func New(ctx context.Context, src *tree.Source, objects content.ObjectStore, at At) *Builder {
	at.Dir, at.Made.Mode = path.Clean(at.Dir), unix.S_IFDIR|at.Made.Mode&0o7777
	b := &Builder{
		ctx:    ctx,
		sealer: &content.Sealer{Src: src.Files, Objects: objects, Workers: maxWorkers, Beside: make(chan struct{}, maxWorkers), FindHoles: true},
		at:     at,
		next:   tree.RootIno,
		limit:  maxUnsealed,
		dirs:   make(map[string]uint64),
		epoch:  1,
	}
	b.src = src.Counting(&b.copied)
	n := b.node(at.Made)
	n.Nlink = 2
	b.state = tree.New(b.epoch, n)
	return b
}

// Over begins with a sealed tree, which stays as it is.
func Over(ctx context.Context, src *tree.Source, objects content.ObjectStore, at At, id cas.Hash) (*Builder, error) {
	b := New(ctx, src, objects, at)
	st, err := tree.Load(b.src, id)
	if err != nil {
		return nil, err
	}
	highest, err := st.Highest(b.src)
	b.state, b.next, b.read = st, highest+1, make(map[uint64]bool)
	return b, err
}

func (b *Builder) node(m gitbridge.Meta) *tree.Inode {
	n := &tree.Inode{Ino: b.next, Nlink: 1}
	b.next++
	setMeta(n, m)
	return n
}

func setMeta(n *tree.Inode, m gitbridge.Meta) {
	n.Mode, n.UID, n.GID = m.Mode, m.UID, m.GID
	n.Atime, n.Mtime, n.Ctime, n.Btime = m.Atime, m.Mtime, cmp.Or(m.Ctime, m.Mtime), cmp.Or(m.Btime, m.Mtime)
	n.Xattrs = m.Xattrs
}

func (b *Builder) Add(e gitbridge.Entry) error {
	if first, _, _ := strings.Cut(e.Path, "/"); b.at.Top && naming.IsControlDir(first) {
		return fmt.Errorf("%w: it has %s at its top, a name that amberfs reserves at the root of a workspace; "+
			"bring it in below a directory, or without that", gitbridge.ErrHostile, first)
	}
	p := path.Join(b.at.Dir, e.Path)
	if n := metaSize(e.Meta); n > live.MaxXattrs {
		return errs.New(errs.TooBig, "%s has %d bytes of extended attributes, at most %d are possible", e.Path, n, live.MaxXattrs)
	}
	if err := b.room(2*len(e.Path) + len(e.Target) + metaSize(e.Meta)); err != nil {
		return err
	}
	switch {
	case e.Hardlink != "":
		return b.hardlink(p, path.Join(b.at.Dir, e.Hardlink))
	case e.Mode&unix.S_IFMT == unix.S_IFDIR:
		return b.addDir(p, e.Meta)
	}
	old, err := b.find(p)
	if err != nil {
		return err
	}
	var n *tree.Inode
	if b.isAgain(old, e) {
		n, err = b.again(old.Ino, e.Meta)
	} else {
		n = b.node(e.Meta)
		err = b.enter(p, n)
	}
	if err != nil {
		return err
	}
	n.Target, n.Rdev = e.Target, e.Rdev
	if n.IsRegular() && e.Size > 0 {
		if err := b.store(p, n, e); err != nil {
			return err
		}
	}
	return b.state.Put(b.src, b.epoch, n)
}

// isAgain reports whether a file is the one that had its path before: that keeps its number. If it
// has other names, it must be like it, and only the first of them that comes brings it.
func (b *Builder) isAgain(old *tree.Inode, e gitbridge.Entry) bool {
	if old == nil || old.Type() != e.Mode&unix.S_IFMT {
		return false
	}
	alike := old.Btime == cmp.Or(e.Btime, e.Mtime) && old.Mtime == e.Mtime && old.UID == e.UID && contentSize(old) == e.Size && old.Target == e.Target
	return len(old.Links) == 1 || b.read != nil && len(b.read) < maxRead && alike && !b.read[old.Ino]
}

// again returns an inode without its contents, for a file that is read again.
func (b *Builder) again(ino uint64, m gitbridge.Meta) (*tree.Inode, error) {
	n, err := b.state.Own(b.src, b.epoch, ino)
	if err != nil {
		return nil, err
	}
	if len(n.Links) > 1 {
		b.read[ino] = true
	}
	b.state.Bytes -= contentSize(n)
	setMeta(n, m)
	n.Content = nil
	return n, nil
}

// store begins to store the contents of a file. stored makes them part of it.
func (b *Builder) store(p string, n *tree.Inode, e gitbridge.Entry) error {
	if !e.Sparse {
		e.Parts = []content.Part{{N: e.Size}}
	}
	s, err := content.Begin(b.ctx, b.sealer, e.Data, e.Size, e.Parts)
	if err != nil {
		return fmt.Errorf("storing %s: %w", p, err)
	}
	if s.Size != e.Size {
		return fmt.Errorf("reading %s: it became shorter while it was read", p)
	}
	b.storing = append(b.storing, &storing{s, p, n})
	return b.stored(maxStoring)
}

// stored returns when no more than most files are still being stored.
func (b *Builder) stored(most int) error {
	for len(b.storing) > most {
		s := b.storing[0]
		b.storing = b.storing[1:]
		base, err := s.Finish()
		if err != nil {
			return fmt.Errorf("storing %s: %w", s.path, err)
		}
		s.node.Content = content.Of(base)
		b.state.Bytes += s.Size
	}
	return nil
}

// room seals the tree if it takes too much memory. n is what will come.
func (b *Builder) room(n int) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.unsealed += inodeSize + n; b.unsealed < b.limit && b.copied.Load() < maxCopied {
		return nil
	}
	if err := b.seal(); err != nil {
		return err
	}
	b.epoch++
	b.unsealed = 0
	b.copied.Store(0)
	clear(b.dirs)
	return nil
}

func (b *Builder) seal() error {
	err := b.stored(0)
	if err == nil {
		_, err = tree.Seal(b.ctx, b.src, b.sealer, b.state)
	}
	return err
}

func metaSize(m gitbridge.Meta) (n int) {
	for _, x := range m.Xattrs {
		n += len(x.Name) + len(x.Value)
	}
	return n
}

func (b *Builder) lookup(dir uint64, name string) (tree.Dirent, bool, error) {
	n, err := b.state.Get(b.src, dir)
	if err != nil {
		return tree.Dirent{}, false, err
	}
	return n.Dir.Lookup(b.src, name)
}

// dir returns the inode number of a directory, which is made if there is none.
func (b *Builder) dir(p string) (uint64, error) {
	if p == "." {
		return tree.RootIno, nil
	}
	if ino, ok := b.dirs[p]; ok {
		return ino, nil
	}
	parent, err := b.dir(path.Dir(p))
	if err != nil {
		return 0, err
	}
	e, ok, err := b.lookup(parent, path.Base(p))
	switch {
	case err != nil:
		return 0, err
	case !ok:
		depth := 1 + strings.Count(p, "/")
		if depth >= tree.MaxDepth {
			return 0, tree.ErrTooDeep
		}
		b.state.Depth = max(b.state.Depth, depth)
		n := b.node(b.at.Made)
		n.Nlink, e.Ino = 2, n.Ino
		if err = b.link(parent, path.Base(p), n); err == nil {
			err = b.state.Put(b.src, b.epoch, n)
		}
	case e.Type != unix.S_IFDIR:
		err = fmt.Errorf("%w: %q is not a directory, but is used as one", gitbridge.ErrHostile, p)
	}
	if err == nil {
		b.dirs[p] = e.Ino
		b.unsealed += inodeSize + len(p)
	}
	return e.Ino, err
}

func (b *Builder) addDir(p string, m gitbridge.Meta) error {
	ino, err := b.dir(p)
	if err != nil {
		return err
	}
	n, err := b.state.Own(b.src, b.epoch, ino)
	if err == nil {
		setMeta(n, m)
	}
	return err
}

// enter gives n, which is no directory, a name in place of what had it.
func (b *Builder) enter(p string, n *tree.Inode) error {
	parent, err := b.dir(path.Dir(p))
	if err != nil {
		return err
	}
	name := path.Base(p)
	old, ok, err := b.lookup(parent, name)
	if err != nil {
		return err
	}
	if ok && old.Type == unix.S_IFDIR {
		return fmt.Errorf("%w: %q is a directory and something else", gitbridge.ErrHostile, name)
	}
	if ok {
		if err := b.unlink(old.Ino, parent, name); err != nil {
			return err
		}
	}
	return b.link(parent, name, n)
}

func (b *Builder) link(parent uint64, name string, n *tree.Inode) error {
	dir, err := b.state.Own(b.src, b.epoch, parent)
	if err != nil {
		return err
	}
	if n.IsDir() {
		dir.Nlink++
	}
	n.Links = append(n.Links, tree.Link{Parent: parent, Name: name})
	return dir.Dir.Insert(b.src, b.epoch, tree.Dirent{Name: name, Ino: n.Ino, Type: n.Type()})
}

// unlink takes one name from an inode, and the inode away with its last. A directory is empty.
func (b *Builder) unlink(ino, parent uint64, name string) error {
	if err := b.stored(0); err != nil {
		return err
	}
	n, err := b.state.Own(b.src, b.epoch, ino)
	if err != nil {
		return err
	}
	dir, err := b.state.Own(b.src, b.epoch, parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.Remove(b.src, b.epoch, name); err != nil {
		return err
	}
	n.Links = slices.DeleteFunc(slices.Clone(n.Links), func(l tree.Link) bool { return l.Parent == parent && l.Name == name })
	if n.IsDir() {
		dir.Nlink--
	} else if n.Nlink--; n.Nlink > 0 {
		return nil
	}
	b.state.Bytes -= contentSize(n)
	return b.state.Delete(b.src, b.epoch, n.Ino)
}

func contentSize(n *tree.Inode) int64 {
	if n.IsRegular() {
		return n.Content.Size()
	}
	return 0
}

func (b *Builder) Finish() (*tree.State, error) {
	if _, err := b.dir(b.at.Dir); err != nil { // it may be empty
		return nil, err
	}
	return b.state, b.seal()
}

func (b *Builder) hardlink(p, old string) error {
	n, err := b.state.Resolve(b.src, old)
	if err != nil || n.IsDir() {
		return fmt.Errorf("%w: a hard link to %q, which is not an earlier file of the archive", gitbridge.ErrHostile, old)
	}
	if p == old {
		return nil
	}
	if n, err = b.state.Own(b.src, b.epoch, n.Ino); err != nil {
		return err
	}
	if err := b.enter(p, n); err != nil {
		return err
	}
	n.Nlink++
	return nil
}
