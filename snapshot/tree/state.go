package tree

import (
	"fmt"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
)

// State is a whole file tree: a table of inodes, of which number 1 is the root
// directory.
//
// Own, Put and Delete change a State in place, under the caller's lock. Clone takes
// O(1) and shares all pages. After a Clone the caller uses the next epoch, so that
// changes of one state are not visible in the other. A state whose epoch is over is
// frozen: any number of goroutines may read, seal and compare it without a lock.
type State struct {
	Inodes int64 // number of inodes; Put and Delete update it
	Bytes  int64 // sum of the sizes of regular files; the caller updates it
	Depth  int   // upper bound of the depth of directories, below MaxDepth; the caller updates it

	root   *page
	height int
	id     atomic.Pointer[cas.Hash]
}

// New returns a state with only the root directory. Epochs count from 1.
func New(epoch uint64, root *Inode) *State {
	s := &State{}
	// Put cannot fail: an empty table is in memory, so it needs no source.
	if err := s.Put(nil, epoch, root); err != nil {
		panic(err)
	}
	return s
}

// NewRoot returns the state of an empty tree. Its root directory has all times t.
func NewRoot(epoch uint64, mode, uid, gid uint32, t int64) *State {
	return New(epoch, &Inode{
		Ino: RootIno, Mode: mode, UID: uid, GID: gid, Nlink: 2,
		Atime: t, Mtime: t, Ctime: t, Btime: t,
	})
}

// Load returns the sealed state with an id. It reads one small object. The pages are loaded when they
// are used.
func Load(src *Source, id cas.Hash) (*State, error) {
	raw, err := src.objects.Get(id, nil)
	if err != nil {
		return nil, fmt.Errorf("load state %s: %w", id, err)
	}

	s, err := decodeState(raw)
	if err != nil {
		return nil, fmt.Errorf("load state %s: %w", id, err)
	}

	s.id.Store(&id)

	return s, nil
}

// Clone returns a state equal to s that shares all its pages.
func (s *State) Clone() *State {
	c := &State{Inodes: s.Inodes, Bytes: s.Bytes, Depth: s.Depth, root: s.root, height: s.height}
	c.id.Store(s.id.Load())
	return c
}

// ID returns the id of a state that was sealed or loaded, and not changed since.
func (s *State) ID() (cas.Hash, bool) {
	if h := s.id.Load(); h != nil {
		return *h, true
	}
	return cas.Hash{}, false
}

// Get returns an inode, which must not be changed. The error is ErrNoInode if s has no such inode.
func (s *State) Get(src *Source, ino uint64) (*Inode, error) {
	leaf, err := s.leafOf(src, ino)
	if err != nil {
		return nil, fmt.Errorf("inode %d: %w", ino, err)
	}
	if leaf == nil {
		return nil, ErrNoInode
	}

	n, err := leaf.get(src, slot(ino, 1), ino)
	if err != nil {
		return nil, fmt.Errorf("inode %d: %w", ino, err)
	}
	if n == nil {
		return nil, ErrNoInode
	}

	return n, nil
}

// Find does what Get does. If the state has no such inode, it returns nil and no error.
func (s *State) Find(src *Source, ino uint64) (*Inode, error) {
	n, err := s.Get(src, ino)
	return n, errs.Ignore(err, ErrNoInode)
}

// Own returns an inode that epoch may change. If the inode in the table belongs to an older epoch,
// Own replaces it by a copy. The error is ErrNoInode if s has no such inode.
func (s *State) Own(src *Source, epoch, ino uint64) (*Inode, error) {
	n, err := s.Get(src, ino)
	if err != nil {
		return nil, err
	}

	s.id.Store(nil)
	if n.epoch == epoch {
		return n, nil
	}

	leaf, err := s.ownLeaf(src, epoch, ino, true)
	if err != nil {
		return nil, err
	}

	n = n.writable(epoch)
	src.copiedBytes.Add(n.weight())
	leaf.set(slot(ino, 1), n)

	return n, nil
}

// Put inserts or replaces an inode. If the caller made the inode (it is not from Get or Own), it
// belongs to the state afterwards, and epoch may change it further. Put copies an inode that belongs
// to another epoch.
func (s *State) Put(src *Source, epoch uint64, n *Inode) error {
	if n.Ino == 0 || n.Ino > MaxIno {
		return fmt.Errorf("inode number %d is out of range", n.Ino)
	}
	leaf, err := s.ownLeaf(src, epoch, n.Ino, true)
	if err != nil {
		return err
	}
	if n.epoch == 0 {
		n.epoch = epoch
	}

	i := slot(n.Ino, 1)
	if !leaf.has(i) {
		s.Inodes++
	}

	leaf.set(i, n.writable(epoch))

	return nil
}

// OwnSlot prepares a Put of an inode with the number ino. Of the pages from the root to the number's slot, it
// copies the pages that epoch does not own, so that Put reads no object and cannot fail. The inodes do not change.
// OwnSlot does not create a missing page, because a page without inodes must not be sealed; Put creates it.
func (s *State) OwnSlot(src *Source, epoch, ino uint64) error {
	_, err := s.ownLeaf(src, epoch, ino, false)
	return err
}

// Delete removes an inode. The error is ErrNoInode if s has no such inode.
func (s *State) Delete(src *Source, epoch, ino uint64) error {
	leaf, err := s.leafOf(src, ino)
	if err != nil {
		return fmt.Errorf("inode %d: %w", ino, err)
	}
	if leaf == nil || !leaf.has(slot(ino, 1)) {
		return ErrNoInode
	}

	s.id.Store(nil)
	if err := removeInode(src, epoch, &s.root, s.height, ino); err != nil {
		return fmt.Errorf("inode %d: %w", ino, err)
	}

	s.Inodes--
	s.shrink(src)

	return nil
}

// Lookup returns the inode of an entry of dir. The error is ErrNotExist if dir has no such entry, and
// ErrNotDir if dir is no directory.
func (s *State) Lookup(src *Source, dir *Inode, name string) (*Inode, error) {
	if !dir.IsDir() {
		return nil, ErrNotDir
	}
	n, err := s.lookupEntry(src, dir, name)
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, ErrNotExist
	}

	return n, nil
}

// lookupEntry returns the inode of an entry of a directory, nil if there is no such entry.
func (s *State) lookupEntry(src *Source, dir *Inode, name string) (*Inode, error) {
	e, ok, err := dir.Dir.Lookup(src, name)
	if err != nil || !ok {
		return nil, err
	}
	return s.entryInode(src, dir, e)
}

// entryInode returns the inode of an entry of the directory dir. It checks that the inode has the entry's type and
// is not deleted, and that a directory has no name other than this entry. So a walk down from the root visits no
// directory twice, even in a forged tree.
func (s *State) entryInode(src *Source, dir *Inode, e Dirent) (*Inode, error) {
	n, err := s.Get(src, e.Ino)
	if err != nil {
		return nil, err
	}
	if n.Type() != e.Type || n.Nlink == 0 || n.IsDir() && (len(n.Links) != 1 || n.Links[0] != Link{dir.Ino, e.Name}) {
		return nil, fmt.Errorf("%w: entry %q of directory %d does not fit inode %d", ErrMalformed, e.Name, dir.Ino, e.Ino)
	}

	return n, nil
}

// UnsealedContents visits the contents in memory of several states, and skips pages that an earlier state shares.
// The zero value is ready to use.
type UnsealedContents struct{ seen map[*page]struct{} } // pages of frozen states

// Each visits the unsealed leaves, and calls fn for the content of every decoded inode in them. If frozen is set, s is
// frozen, and Each skips pages that it has visited for another frozen state; else the caller holds the lock of the
// state's owner. Some of the contents may be sealed already, if they were not
// changed since they were sealed last.
func (u *UnsealedContents) Each(s *State, frozen bool, fn func(c *content.Content)) {
	if frozen && u.seen == nil {
		u.seen = make(map[*page]struct{})
	}

	_ = eachUnsealed(s.root, func(p *page) bool {
		_, seen := u.seen[p]
		if frozen {
			u.seen[p] = struct{}{}
		}

		return seen
	}, func(n *Inode) error {
		if n.Content != nil {
			fn(n.Content)
		}
		return nil
	})
}
