package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// maxUnsealed is about how many bytes of memory a Merge takes before what there
	// is of the view is sealed.
	maxUnsealed = 32 << 20
	// mergedInode is what an inode takes, with its directory entry and its page.
	mergedInode = 1 << 10
	// maxCopied is the same for pages that were copied to be changed.
	maxCopied = 32 << 20
)

// Merge brings a tree into the edited view; now is in nanoseconds since 1970. From time
// to time, and at the end, seal is called for the view as it is then: so the memory that
// this takes does not grow with the tree. Nothing is noted of what it does: who walks
// the Overlay once more sees it.
func (e *Edit) Merge(ctx context.Context, o *Overlay, now int64, seal func(*tree.State) error) error {
	highest, err := o.Source.Highest(e.f.waiting)
	if err != nil {
		return loadError(err)
	}
	if err := e.number(o, highest); err != nil {
		return err
	}
	if err := e.copy.deepen(o.Prefix, o.Source); err != nil {
		return err
	}
	m := &merge{e: e, now: now, seal: seal}
	e.copy.src = e.f.waiting.Counting(&m.copied)
	if err := o.Walk(ctx, e.f.waiting, m.enter, m.leave); err != nil {
		return loadError(err)
	}
	if err := m.sealed(); err != nil {
		return err
	}
	e.before, e.after = e.base.state.Clone(), e.copy.state.Clone()
	return nil
}

// number takes inode numbers for a source of which the highest is given, on pages of
// their own.
func (e *Edit) number(o *Overlay, highest uint64) error {
	f := e.f
	f.mu.Lock()
	defer f.mu.Unlock()
	next := o.number((f.mu.nextIno/tree.PageInodes+1)*tree.PageInodes, highest)
	if next > MaxIno {
		return fmt.Errorf("%w: the store has used up its inode numbers", ErrNoSpace)
	}
	f.mu.nextIno, e.next = next, next
	return nil
}

// Replaced tells of a file that a merge put something in the place of: the entry and, if
// it has other names, the file. Until Forgotten, which the caller calls when it has
// asked for all of them, what the kernel holds of what was replaced is found in the state
// before: there may be more of it than fits into memory.
func (e *Edit) Replaced(in Place, c tree.Change) (entry Entry, inodes []NodeID, err error) {
	was := Node(e.copy.id, c.A.Ino)
	entry = Entry{Parent: Node(e.copy.id, in.Ino), Name: c.Path.Name}
	_, err = e.after.Get(e.f.waiting, c.A.Ino)
	switch {
	case err == nil:
		inodes = []NodeID{was}
	case errors.Is(err, tree.ErrNoInode):
		entry.Was = was
		if e.keepHeld(was) {
			entry.Gone = was
		}
		err = nil
	}
	return entry, inodes, err
}

// keepHeld keeps an inode that has lost its last name if the kernel holds it. Nothing
// without a name comes to be held.
func (e *Edit) keepHeld(id NodeID) bool {
	e.f.mu.RLock()
	defer e.f.mu.RUnlock()
	if !e.f.isHeld(id) {
		return false
	}
	_, ok := e.f.orphan(e.base, id.Ino())
	if ok && !e.f.isHeld(id) {
		e.base.orphans.remove(e.f.src, id.Ino())
	}
	return ok
}

// Forgotten ends what Replaced tells of.
func (e *Edit) Forgotten() {
	e.f.mu.Lock()
	defer e.f.mu.Unlock()
	e.base.before = slices.DeleteFunc(e.base.before, func(st *tree.State) bool { return st == e.before })
}

// Sealed makes a sealed state, in which the numbers below next are used, what the view
// is to become: it is what a Merge came to, for recovery.
func (e *Edit) Sealed(st *tree.State, next uint64) { e.copy.state, e.next = st, next }

// Next returns the number above those that the edit uses.
func (e *Edit) Next() uint64 { return e.next }

// merge is a Merge under way.
type merge struct {
	e        *Edit
	now      int64
	seal     func(*tree.State) error
	unsealed int // bytes of memory, about
	copied   atomic.Int64
}

func (m *merge) enter(in Place, c tree.Change, ino uint64) error {
	if err := m.room(c.Path.Name, c.B); err != nil {
		return err
	}
	if c.A != nil && c.A.IsDir() {
		return nil
	}
	f, v, parent, name := m.e.f, m.e.copy, in.Ino, c.Path.Name
	if c.A != nil {
		if _, _, err := f.dropName(v, parent, name, m.now); err != nil {
			return err
		}
	}
	n, err := v.state.Get(f.waiting, ino)
	if err == nil { // another name of it came before
		if n, err = f.own(v, n.Ino); err != nil {
			return err
		}
		return f.addName(v, parent, name, n, m.now)
	}
	if !errors.Is(err, tree.ErrNoInode) {
		return err
	}
	return f.addNode(v, parent, name, newLike(c.B, ino, m.now), m.now)
}

// leave gives a directory the attributes of the source, when its entries have come. The
// one that all goes into keeps its own.
func (m *merge) leave(p Place) error {
	if p.Path == nil {
		return nil
	}
	n, err := m.e.f.own(m.e.copy, p.Ino)
	if err != nil {
		return err
	}
	setAttrsOf(n, p.From, m.now)
	return nil
}

// room seals the view if what was made since takes too much memory.
func (m *merge) room(name string, n *tree.Inode) error {
	size := mergedInode + 2*len(name) + len(n.Target)
	for _, x := range n.Xattrs {
		size += len(x.Name) + len(x.Value)
	}
	if m.unsealed += size; m.unsealed < maxUnsealed && m.copied.Load() < maxCopied {
		return nil
	}
	return m.sealed()
}

func (m *merge) sealed() error {
	m.unsealed = 0
	m.copied.Store(0)
	return m.e.seal(m.seal)
}

// seal has the view sealed as it is. What comes belongs to another epoch.
func (e *Edit) seal(with func(*tree.State) error) error {
	if err := with(e.copy.state); err != nil {
		return err
	}
	e.f.mu.Lock()
	defer e.f.mu.Unlock()
	e.f.mu.epoch += 2
	e.copy.epoch = e.f.mu.epoch - 1
	return nil
}
