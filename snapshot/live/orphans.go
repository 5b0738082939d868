package live

import (
	"errors"
	"sync"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An orphanSet has the inodes of a view that have no name and to which the kernel has references. After a recovery
// it has every inode without a name to which the kernel may have a reference. A caller of put holds the forest's lock
// for writing or, after a restore, for reading. A caller of remove holds the forest's lock for reading.
type orphanSet struct {
	mu       sync.RWMutex
	state    *tree.State // without a root
	onChange func()      // called after each change
}

// get returns an orphan. The error is tree.ErrNoInode if no orphan has this number.
func (o *orphanSet) get(src *tree.Source, ino uint64) (*tree.Inode, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.state.Get(src, ino)
}

// own returns an orphan that may be changed in the given epoch.
func (o *orphanSet) own(src *tree.Source, epoch, ino uint64) (*tree.Inode, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onChange()
	return o.state.Own(src, epoch, ino)
}

// put adds an inode without its names. It cannot fail if the caller has called ownSlot.
func (o *orphanSet) put(src *tree.Source, epoch uint64, n *tree.Inode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := *n
	c.Nlink, c.Links = 0, nil
	_ = o.state.Put(src, epoch, &c)
	o.onChange()
}

// ownSlot prepares put of an inode number, see tree.State.OwnSlot.
func (o *orphanSet) ownSlot(src *tree.Source, epoch, ino uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state.OwnSlot(src, epoch, ino)
}

// replaceAll replaces all orphans. The state belongs to o afterwards.
func (o *orphanSet) replaceAll(s *tree.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state.Inodes > 0 || s.Inodes > 0 {
		o.onChange()
	}
	o.state = s
}

// inos returns the inode numbers of the orphans.
func (o *orphanSet) inos(src *tree.Source) (inos []uint64, err error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	err = o.state.EachNotIn(src, &tree.State{}, func(n *tree.Inode) { inos = append(inos, n.Ino) })
	return inos, err
}

// remove removes an inode if it is an orphan.
func (o *orphanSet) remove(src *tree.Source, epoch, ino uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state.Delete(src, epoch, ino) == nil {
		o.onChange()
	}
}

// clone returns a copy of the present state. The caller then ends the epoch, which freezes the copy.
func (o *orphanSet) clone() *tree.State {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.state.Clone()
}

// eachContent calls fn for the content of every orphan that is in memory and not sealed.
func (o *orphanSet) eachContent(fn func(*content.Content)) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	new(tree.UnsealedContents).Each(o.state, false, fn)
}

// keepUnnamed makes an inode that lost its last name an orphan, if the kernel has a reference to the inode or, in
// a recovery, may have one.
func (v *view) keepUnnamed(n *tree.Inode) {
	if !v.trees.mu.replaying && !v.trees.isHeld(Node(v.id, n.Ino)) {
		return
	}
	orphan := *n
	orphan.Ctime = v.editor.Time
	v.orphans.put(v.source(), v.trees.mu.epoch, &orphan)
}

// ownOrphanSlot prepares a change by which an inode becomes an orphan or an orphan gets a name.
func (v *view) ownOrphanSlot(ino uint64) error {
	return tree.LoadError(v.orphans.ownSlot(v.source(), v.trees.mu.epoch, ino))
}

// orphan returns an orphan of a view. If the inode is not an orphan, but is in a state that an edit has just
// replaced, orphan makes the inode an orphan. The caller holds the forest's lock, at least for reading.
func (v *view) orphan(ino uint64) (*tree.Inode, error) {
	n, err := v.orphans.get(v.source(), ino)
	for i := 0; errors.Is(err, tree.ErrNoInode) && i < len(v.replacedStates); i++ {
		if n, err = v.replacedStates[i].Get(v.source(), ino); err == nil {
			n, err = v.orphanReplaced(n)
		}
	}

	return n, err
}

// orphanReplaced makes an inode of a replaced state an orphan.
func (v *view) orphanReplaced(n *tree.Inode) (*tree.Inode, error) {
	if err := v.orphans.ownSlot(v.source(), v.trees.mu.epoch, n.Ino); err != nil {
		return nil, err
	}
	v.orphans.put(v.source(), v.trees.mu.epoch, n)
	return v.orphans.get(v.source(), n.Ino)
}

// orphanAllReplaced makes orphans of all inodes of replaced states to which the kernel has references. The
// caller holds the forest's lock.
func (v *view) orphanAllReplaced() error {
	v.trees.mu.inApply = true // read from disk under the lock
	defer func() { v.trees.mu.inApply = false }()

	for _, st := range v.replacedStates {
		if err := st.EachNotIn(v.source(), v.state, func(n *tree.Inode) {
			if v.trees.isHeld(Node(v.id, n.Ino)) {
				_, _ = v.orphan(n.Ino)
			}
		}); err != nil {
			return err
		}
	}

	return nil
}
