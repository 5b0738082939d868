package live

import (
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

func (o *orphans) get(src *tree.Source, ino uint64) (*tree.Inode, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	n, err := o.state.Get(src, ino)
	return n, err == nil
}

// own is get for changing the inode in an epoch.
func (o *orphans) own(src *tree.Source, epoch, ino uint64) (*tree.Inode, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.state.Own(src, epoch, ino)
	o.touch()
	return n, err == nil
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

// unnamed returns an inode that has no name. The lock is held.
func (v *view) unnamed(ino uint64) (*tree.Inode, bool) {
	if _, err := v.state.Get(v.source(), ino); err == nil {
		return nil, false
	}
	return v.orphan(ino)
}

// orphan returns an unlinked inode of a view. The lock is held at least for reading.
func (v *view) orphan(ino uint64) (*tree.Inode, bool) {
	if n, ok := v.orphans.get(v.trees.src, ino); ok {
		return n, true
	}
	if !v.keepReplaced(ino) {
		return nil, false
	}
	return v.orphans.get(v.trees.src, ino)
}

// ownOrphan is orphan for changing the inode. The lock is held.
func (v *view) ownOrphan(ino uint64) (*tree.Inode, bool) {
	if _, ok := v.orphan(ino); !ok {
		return nil, false
	}
	return v.orphans.own(v.trees.src, v.trees.mu.epoch, ino)
}

// keepReplaced makes an inode of a state that an edit has just replaced an orphan, unless
// the view still has it. It reports whether there was one. The lock is held at least for
// reading.
func (v *view) keepReplaced(ino uint64) bool {
	if len(v.before) == 0 {
		return false
	}
	if _, err := v.state.Get(v.trees.src, ino); err == nil {
		return false
	}
	for _, st := range v.before {
		if n, err := st.Get(v.trees.src, ino); err == nil {
			v.orphans.put(v.trees.src, v.trees.mu.epoch, n)
			return true
		}
	}
	return false
}

// keepAllReplaced is keepReplaced for all inodes that the kernel holds. The lock is held.
func (v *view) keepAllReplaced() error {
	for _, st := range v.before {
		if err := st.Beyond(v.trees.src, v.state, func(n *tree.Inode) {
			if v.trees.Held(Node(v.id, n.Ino)) {
				v.orphan(n.Ino)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
