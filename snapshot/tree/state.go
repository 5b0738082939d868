package tree

import (
	"fmt"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
)

// State is a whole file tree: a table of inodes, of which number 1 is the root
// directory.
//
// A State is changed in place by Own, Put and Delete, under the caller's lock.
// Clone takes O(1) and shares everything; the caller then goes on to the next
// epoch, and from there on neither sees what the other changes. A state whose
// epoch is past is frozen: it may be read, sealed and compared by any number of
// goroutines with no lock.
type State struct {
	Inodes int64 // number of inodes, kept by Put and Delete
	Bytes  int64 // sum of the sizes of regular files, kept by the caller
	Depth  int   // no directory is nested deeper; below MaxDepth, kept by the caller

	root   *page
	height int
	id     atomic.Pointer[cas.Hash]
}

// New returns a state that holds only the root directory. Epochs count from 1.
func New(epoch uint64, root *Inode) *State {
	s := &State{}
	// An empty table is in memory: nothing is loaded, so nothing can fail.
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

// Load returns the sealed state id. It reads one small object. The pages are loaded when they are
// used.
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

// ID returns the hash of a state that was sealed or loaded, and not changed since.
func (s *State) ID() (cas.Hash, bool) {
	if h := s.id.Load(); h != nil {
		return *h, true
	}
	return cas.Hash{}, false
}

// Get returns an inode, which must not be changed; ErrNoInode if there is none.
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

// Own returns an inode that epoch may change: the one in the table if epoch made
// it, else a copy that takes its place. ErrNoInode if there is none.
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
	n = n.owned(epoch)
	src.copied.Add(n.weight())
	leaf.set(slot(ino, 1), n)
	return n, nil
}

// Put inserts or replaces an inode. An inode made by the caller (not by Get or
// Own) belongs to the state from then on, and epoch may go on changing it; one
// that came from elsewhere is copied.
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
	leaf.set(i, n.owned(epoch))
	return nil
}

// OwnSlot copies the page that an inode number belongs on, unless epoch owns it, so that Put reads
// nothing and does not fail. The inodes stay the same. A missing page is left to Put, because no
// page may be sealed without an inode.
func (s *State) OwnSlot(src *Source, epoch, ino uint64) error {
	_, err := s.ownLeaf(src, epoch, ino, false)
	return err
}

// Delete removes an inode; ErrNoInode if there is none.
func (s *State) Delete(src *Source, epoch, ino uint64) error {
	leaf, err := s.leafOf(src, ino)
	if err != nil {
		return fmt.Errorf("inode %d: %w", ino, err)
	}
	if leaf == nil || !leaf.has(slot(ino, 1)) {
		return ErrNoInode
	}
	s.id.Store(nil)
	if err := removeFrom(src, epoch, &s.root, s.height, ino); err != nil {
		return fmt.Errorf("inode %d: %w", ino, err)
	}
	s.Inodes--
	s.shrink(src)
	return nil
}

// Lookup returns the inode that dir calls name: ErrNotExist if there is none,
// ErrNotDir if dir is no directory.
func (s *State) Lookup(src *Source, dir *Inode, name string) (*Inode, error) {
	if !dir.IsDir() {
		return nil, ErrNotDir
	}
	n, err := s.find(src, dir, name)
	if err == nil && n == nil {
		err = ErrNotExist
	}
	return n, err
}

// find is Lookup in a directory; nil if there is no such entry.
func (s *State) find(src *Source, dir *Inode, name string) (*Inode, error) {
	e, ok, err := dir.Dir.Lookup(src, name)
	if err != nil || !ok {
		return nil, err
	}
	return s.child(src, dir, e)
}

// child returns the inode of an entry after checking it: it has the entry's type and a name, and a
// directory has only this name. So no directory is found twice on the way down from the root, even
// in a forged tree.
func (s *State) child(src *Source, dir *Inode, e Dirent) (*Inode, error) {
	n, err := s.Get(src, e.Ino)
	if err != nil {
		return nil, err
	}
	if n.Type() != e.Type || n.Nlink == 0 || n.IsDir() && (len(n.Links) != 1 || n.Links[0] != Link{dir.Ino, e.Name}) {
		return nil, fmt.Errorf("%w: entry %q of directory %d does not fit inode %d", ErrMalformed, e.Name, dir.Ino, e.Ino)
	}
	return n, nil
}

// Unsealed visits what several states have in memory, and what they share only once. The zero
// value is ready.
type Unsealed struct{ seen map[*page]struct{} }

// Each calls fn for the content of every file that is in memory on a page not yet sealed, except
// on pages of frozen states that it has already visited. The contents themselves may be older than
// the page, and sealed. The caller holds the lock of the state's owner, unless frozen is set.
func (u *Unsealed) Each(s *State, frozen bool, fn func(c *content.Content)) {
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
