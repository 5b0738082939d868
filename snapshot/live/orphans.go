package live

import (
	"sync"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// orphans are the inodes of a view that have lost their last name while the
// kernel holds them. They are added with the forest's lock held for writing or, after a
// restore, for reading; the kernel forgets them with the lock held for reading.
type orphans struct {
	mu    sync.RWMutex
	state tree.State // without a root
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
	return n, err == nil
}

// put adds an inode of the view's state, without its names. All of the orphans are in
// memory, so nothing fails.
func (o *orphans) put(src *tree.Source, epoch uint64, n *tree.Inode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := *n
	c.Nlink, c.Links = 0, nil
	_ = o.state.Put(src, epoch, &c)
}

func (o *orphans) remove(src *tree.Source, epoch, ino uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.state.Delete(src, epoch, ino) // it need not be one
}

// each calls fn for the content of every orphan.
func (o *orphans) each(fn func(*content.Content)) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	new(tree.Unsealed).Each(&o.state, false, fn)
}

// orphan returns an unlinked inode of a view. f.mu is held at least for reading.
func (f *Forest) orphan(v *view, ino uint64) (*tree.Inode, bool) {
	if n, ok := v.orphans.get(f.src, ino); ok {
		return n, true
	}
	if !f.keepReplaced(v, ino) {
		return nil, false
	}
	return v.orphans.get(f.src, ino)
}

// ownOrphan is orphan for changing the inode. f.mu is held.
func (f *Forest) ownOrphan(v *view, ino uint64) (*tree.Inode, bool) {
	if _, ok := f.orphan(v, ino); !ok {
		return nil, false
	}
	return v.orphans.own(f.src, f.mu.epoch, ino)
}

// keepReplaced makes an inode of a state that an edit has just replaced an orphan, unless
// the view still has it. It reports whether there was one. f.mu is held at least for
// reading.
func (f *Forest) keepReplaced(v *view, ino uint64) bool {
	if len(v.before) == 0 {
		return false
	}
	if _, err := v.state.Get(f.src, ino); err == nil {
		return false
	}
	for _, st := range v.before {
		if n, err := st.Get(f.src, ino); err == nil {
			v.orphans.put(f.src, f.mu.epoch, n)
			return true
		}
	}
	return false
}
