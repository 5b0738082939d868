package importer

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

const (
	// maxWorkers is the largest number of chunks of a file that are stored at the same time.
	maxWorkers = 4
	// maxUnsealedBytes is the largest size in memory of the changes of the tree since the last seal. If they take
	// more, the Builder seals the tree: it stores the changed pages as objects.
	maxUnsealedBytes = 32 << 20
	// maxCopiedBytes is the largest size in memory of the copies of sealed pages. A sealed page is copied before it
	// is changed.
	maxCopiedBytes = 32 << 20
	// inodeBytes is the approximate size of an inode in memory, with its directory entry and its page.
	inodeBytes = 1 << 10
)

// maxReplacedFiles is the largest number of files with several names that keep their inode numbers when their
// contents are replaced. Further such files get new numbers.
const maxReplacedFiles = 1 << 17

// MemoryNeeded is the approximate number of bytes of memory that a Builder and its source need, for sources of any
// size.
const MemoryNeeded = 80 << 20

// A Destination is the place of an imported tree.
type Destination struct {
	Dir             string      // path of the directory into which all entries of the source are put
	DirMeta         stream.Meta // attributes of the root, and of directories for which the source has no entry
	IsWorkspaceRoot bool        // the root becomes the root of a workspace, where some names are reserved
}

// A Builder builds a tree from entries. Its methods are called by one goroutine.
//
// It keeps a bounded part of the tree in memory. When this part is full, it seals the tree and continues in
// the next epoch.
type Builder struct {
	ctx    context.Context
	src    *tree.Source
	sealer *content.Sealer
	dest   Destination

	nextIno       uint64            // number of the next new inode
	unsealedLimit int               // value of unsealedBytes at which the Builder seals
	unsealedBytes int               // approximate bytes of memory for changes since the last seal
	copiedBytes   atomic.Int64      // bytes of memory for copies of sealed pages
	dirs          map[string]uint64 // inode numbers of directories that were used since the last seal, by path

	epoch        uint64
	state        *tree.State
	pendingFiles []*pendingFile
	replacedInos map[uint64]bool // inode numbers of replaced files with several names; nil if New made the Builder
}

// A pendingFile is a file of the state whose contents are being stored.
type pendingFile struct {
	*content.PendingFile
	path string
	node *tree.Inode
}

// maxPendingFiles is the largest number of files that are being stored while the next entry is read.
const maxPendingFiles = 64

// New returns a Builder with an empty tree. objects receives the contents and the pages of the tree.
func New(ctx context.Context, src *tree.Source, objects content.ObjectStore, dest Destination) *Builder {
	dest.Dir, dest.DirMeta.Mode = path.Clean(dest.Dir), unix.S_IFDIR|dest.DirMeta.Mode&0o7777
	b := &Builder{
		ctx:           ctx,
		sealer:        &content.Sealer{Src: src.Files, Objects: objects, Workers: maxWorkers, StoreSlots: make(chan struct{}, maxWorkers), FindHoles: true},
		dest:          dest,
		nextIno:       tree.RootIno,
		unsealedLimit: maxUnsealedBytes,
		dirs:          make(map[string]uint64),
		epoch:         1,
	}

	b.src = src.CountingCopies(&b.copiedBytes)
	n := b.newNode(dest.DirMeta)
	n.Nlink = 2
	b.state = tree.New(b.epoch, n)
	return b
}

// NewFrom returns a Builder that begins with a copy of the sealed tree that has the given id.
func NewFrom(ctx context.Context, src *tree.Source, objects content.ObjectStore, dest Destination, id cas.Hash) (*Builder, error) {
	b := New(ctx, src, objects, dest)
	st, err := tree.Load(b.src, id)
	if err != nil {
		return nil, err
	}

	highest, err := st.HighestIno(b.src)
	b.state, b.nextIno, b.replacedInos = st, highest+1, make(map[uint64]bool)
	return b, err
}

// newNode returns a new inode, which is not in the tree yet.
func (b *Builder) newNode(m stream.Meta) *tree.Inode {
	n := &tree.Inode{Ino: b.nextIno, Nlink: 1}
	b.nextIno++
	setMeta(n, m)
	return n
}

func setMeta(n *tree.Inode, m stream.Meta) {
	n.Mode, n.UID, n.GID = m.Mode, m.UID, m.GID
	n.Atime, n.Mtime, n.Ctime, n.Btime = m.Atime, m.Mtime, cmp.Or(m.Ctime, m.Mtime), cmp.Or(m.Btime, m.Mtime)
	n.Xattrs = m.Xattrs
}

// Add adds an entry below Destination.Dir. If the path is a directory already, it gets the entry's attributes. If
// another file is at the path, Add replaces the file. Add creates the directories on the path that do not exist.
func (b *Builder) Add(e stream.Entry) error {
	if first, _, _ := strings.Cut(e.Path, "/"); b.dest.IsWorkspaceRoot && naming.IsControlDir(first) {
		return fmt.Errorf("%w: it has %s at its top, a name that amberfs reserves at the root of a workspace; "+
			"bring it in below a directory, or without that", stream.ErrHostile, first)
	}

	p := path.Join(b.dest.Dir, e.Path)
	if n := xattrBytes(e.Meta); n > live.MaxXattrBytes {
		return errs.New(errs.TooBig, "%s has %d bytes of extended attributes, at most %d are possible", e.Path, n, live.MaxXattrBytes)
	}
	if err := b.makeRoom(2*len(e.Path) + len(e.Target) + xattrBytes(e.Meta)); err != nil {
		return err
	}

	switch {
	case e.Hardlink != "":
		return b.addHardlink(p, path.Join(b.dest.Dir, e.Hardlink))
	case e.Mode&unix.S_IFMT == unix.S_IFDIR:
		return b.addDir(p, e.Meta)
	}

	old, err := b.find(p)
	if err != nil {
		return err
	}

	var n *tree.Inode
	if b.keepsIno(old, e) {
		n, err = b.replaceFile(old.Ino, e.Meta)
	} else {
		n = b.newNode(e.Meta)
		err = b.setName(p, n)
	}
	if err != nil {
		return err
	}

	n.Target, n.Rdev = e.Target, e.Rdev
	if n.IsRegular() && e.Size > 0 {
		if err := b.storeContents(p, n, e); err != nil {
			return err
		}
	}

	return b.state.Put(b.src, b.epoch, n)
}

// keepsIno reports whether an entry replaces only the contents of the file that is at its path, so that the file
// keeps its inode number. The parameter old is this file. The result is true for a file with one name. For a file
// with several names, the entry must have the same size, times, owner and link target. It must also be the first such
// entry: for the other names of the file, the source has hard links.
func (b *Builder) keepsIno(old *tree.Inode, e stream.Entry) bool {
	if old == nil || old.Type() != e.Mode&unix.S_IFMT {
		return false
	}
	isSameFile := old.Btime == cmp.Or(e.Btime, e.Mtime) && old.Mtime == e.Mtime && old.UID == e.UID && contentSize(old) == e.Size && old.Target == e.Target
	return len(old.Links) == 1 || b.replacedInos != nil && len(b.replacedInos) < maxReplacedFiles && isSameFile && !b.replacedInos[old.Ino]
}

// replaceFile gives the inode ino of the tree new attributes, removes its contents, and returns it.
func (b *Builder) replaceFile(ino uint64, m stream.Meta) (*tree.Inode, error) {
	n, err := b.state.Own(b.src, b.epoch, ino)
	if err != nil {
		return nil, err
	}
	if len(n.Links) > 1 {
		b.replacedInos[ino] = true
	}

	b.state.Bytes -= contentSize(n)
	setMeta(n, m)
	n.Content = nil
	return n, nil
}

// storeContents starts to store the contents of a file. finishPending adds them to the inode.
func (b *Builder) storeContents(p string, n *tree.Inode, e stream.Entry) error {
	if !e.Sparse {
		e.Parts = []content.DataRange{{N: e.Size}}
	}

	s, err := content.BeginFile(b.ctx, b.sealer, e.Data, e.Size, e.Parts)
	if err != nil {
		return fmt.Errorf("storing %s: %w", p, err)
	}
	if s.Size != e.Size {
		return fmt.Errorf("reading %s: it became shorter while it was read", p)
	}

	b.pendingFiles = append(b.pendingFiles, &pendingFile{s, p, n})
	return b.finishPending(maxPendingFiles)
}

// finishPending waits until at most maxLeft files are pending. When the contents of a file are stored, finishPending
// adds them to the file's inode.
func (b *Builder) finishPending(maxLeft int) error {
	for len(b.pendingFiles) > maxLeft {
		f := b.pendingFiles[0]
		b.pendingFiles = b.pendingFiles[1:]
		base, err := f.Finish()
		if err != nil {
			return fmt.Errorf("storing %s: %w", f.path, err)
		}

		f.node.Content = content.FromChunkMap(base)
		b.state.Bytes += f.Size
	}
	return nil
}

// makeRoom is called before an inode with newBytes bytes of names and attributes is added. If the tree would take too
// much memory then, makeRoom seals the tree.
func (b *Builder) makeRoom(newBytes int) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.unsealedBytes += inodeBytes + newBytes; b.unsealedBytes < b.unsealedLimit && b.copiedBytes.Load() < maxCopiedBytes {
		return nil
	}
	if err := b.seal(); err != nil {
		return err
	}

	b.epoch++
	b.unsealedBytes = 0
	b.copiedBytes.Store(0)
	clear(b.dirs)

	return nil
}

// seal stores the changed pages of the tree, and the contents of pending files, as objects.
func (b *Builder) seal() error {
	if err := b.finishPending(0); err != nil {
		return err
	}
	_, err := tree.Seal(b.ctx, b.src, b.sealer, b.state)
	return err
}

func xattrBytes(m stream.Meta) (n int) {
	for _, x := range m.Xattrs {
		n += len(x.Name) + len(x.Value)
	}
	return n
}

func contentSize(n *tree.Inode) int64 {
	if n.IsRegular() {
		return n.Content.Size()
	}
	return 0
}

// Finish seals the tree and returns it. The objects are not yet on disk.
func (b *Builder) Finish() (*tree.State, error) {
	if _, err := b.makeDirs(b.dest.Dir); err != nil { // creates the directory if the source had no entries
		return nil, err
	}
	return b.state, b.seal()
}

// addHardlink adds the name p to the file at the path old.
func (b *Builder) addHardlink(p, old string) error {
	n, err := b.state.Resolve(b.src, old)
	if err != nil || n.IsDir() {
		return fmt.Errorf("%w: a hard link to %q, which is not an earlier file of the archive", stream.ErrHostile, old)
	}
	if p == old {
		return nil
	}
	if n, err = b.state.Own(b.src, b.epoch, n.Ino); err != nil {
		return err
	}
	if err := b.setName(p, n); err != nil {
		return err
	}

	n.Nlink++

	return nil
}
