package live

import (
	"errors"
	"sync"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// orphans are the inodes of a view that have no name and that the kernel holds, or may hold:
// recovery keeps all. They are added with the forest's lock held for writing or, after a
// restore, for reading; the kernel forgets them with the lock held for reading.
type orphans struct {
	mu    sync.RWMutex
	state *tree.State // without a root
	touch func()      // called after each change
}

func (o *orphans) get(src *tree.Source, ino uint64) (*tree.Inode, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.state.Get(src, ino)
}

// own is get for changing the inode in an epoch.
func (o *orphans) own(src *tree.Source, epoch, ino uint64) (*tree.Inode, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.touch()
	return o.state.Own(src, epoch, ino)
}

// put adds an inode of the view's state, without its names. It fails only if the page that
// the inode belongs on cannot be read: see ownSlot.
func (o *orphans) put(src *tree.Source, epoch uint64, n *tree.Inode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := *n
	c.Nlink, c.Links = 0, nil
	_ = o.state.Put(src, epoch, &c)
	o.touch()
}

func (o *orphans) ownSlot(src *tree.Source, epoch, ino uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state.OwnSlot(src, epoch, ino)
}

// set replaces all orphans, and owns the state from then on.
func (o *orphans) set(s *tree.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state.Inodes > 0 || s.Inodes > 0 {
		o.touch()
	}
	o.state = s
}

// all returns the numbers of the orphans.
func (o *orphans) all(src *tree.Source) (inos []uint64, err error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	err = o.state.Beyond(src, &tree.State{}, func(n *tree.Inode) { inos = append(inos, n.Ino) })
	return inos, err
}

func (o *orphans) remove(src *tree.Source, epoch, ino uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state.Delete(src, epoch, ino) == nil { // it need not be one
		o.touch()
	}
}

// frozen returns the present state. The epoch is to end.
func (o *orphans) frozen() *tree.State {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.state.Clone()
}

// each calls fn for the content of every orphan.
func (o *orphans) each(fn func(*content.Content)) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	new(tree.Unsealed).Each(o.state, false, fn)
}

// keepUnnamed makes an inode that lost its last name an orphan, if the kernel holds it.
func (v *view) keepUnnamed(n *tree.Inode) {
	if v.trees.mu.replaying || v.trees.Held(Node(v.id, n.Ino)) {
		orphan := *n
		orphan.Ctime = v.editor.Time
		v.orphans.put(v.source(), v.trees.mu.epoch, &orphan)
	}
}

// ownOrphanSlot is for an inode that becomes an orphan, or is one no more.
func (v *view) ownOrphanSlot(ino uint64) error {
	return tree.LoadError(v.orphans.ownSlot(v.source(), v.trees.mu.epoch, ino))
}

// orphan returns an unlinked inode of a view, which is not in the view's state. The lock is
// held at least for reading.
func (v *view) orphan(ino uint64) (*tree.Inode, error) {
	n, err := v.orphans.get(v.source(), ino)
	for i := 0; errors.Is(err, tree.ErrNoInode) && i < len(v.before); i++ {
		if n, err = v.before[i].Get(v.source(), ino); err == nil {
			n, err = v.keepReplaced(n)
		}
	}
	return n, err
}

// keepReplaced makes an inode of a state that an edit has just replaced an orphan.
func (v *view) keepReplaced(n *tree.Inode) (*tree.Inode, error) {
	if err := v.orphans.ownSlot(v.source(), v.trees.mu.epoch, n.Ino); err != nil {
		return nil, err
	}
	v.orphans.put(v.source(), v.trees.mu.epoch, n)
	return v.orphans.get(v.source(), n.Ino)
}

// keepAllReplaced makes all those inodes orphans that the kernel holds. The lock is held.
func (v *view) keepAllReplaced() error {
	v.trees.mu.applying = true
	defer func() { v.trees.mu.applying = false }()
	for _, st := range v.before {
		if err := st.Beyond(v.source(), v.state, func(n *tree.Inode) {
			if v.trees.Held(Node(v.id, n.Ino)) {
				_, _ = v.orphan(n.Ino)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
