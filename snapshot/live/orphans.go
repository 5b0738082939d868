package live

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// orphans are the inodes of a view that have lost their last name while the
// kernel holds them. They come with the forest's lock held for writing, and go
// with less: a whole tree that a restore has replaced is forgotten inode by
// inode, while others write.
type orphans struct {
	mu   sync.RWMutex
	sets []map[uint64]*tree.Inode // single files join the first
}

func (o *orphans) get(ino uint64) (*tree.Inode, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, set := range o.sets {
		if n, ok := set[ino]; ok {
			return n, true
		}
	}
	return nil, false
}

func (o *orphans) put(n *tree.Inode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.sets) == 0 {
		o.sets = append(o.sets, make(map[uint64]*tree.Inode))
	}
	o.sets[0][n.Ino] = n
}

// largeSet is the size from which on inodes are not moved one by one while all
// others wait, 30 ms for 100,000.
const largeSet = 1000

// putAll takes the set over.
func (o *orphans) putAll(set map[uint64]*tree.Inode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.sets) == 0 || len(set) >= largeSet {
		o.sets = append(o.sets, set)
	} else {
		maps.Copy(o.sets[0], set)
	}
}

func (o *orphans) remove(ino uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, set := range o.sets {
		if _, ok := set[ino]; !ok {
			continue
		}
		if delete(set, ino); len(set) == 0 {
			o.sets = slices.Delete(o.sets, i, i+1)
		}
		return
	}
}

// all must not be left with o changed.
func (o *orphans) all() iter.Seq[*tree.Inode] {
	return func(yield func(*tree.Inode) bool) {
		o.mu.RLock()
		defer o.mu.RUnlock()
		for _, set := range o.sets {
			for n := range maps.Values(set) {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// orphan returns an unlinked inode of a view. f.mu is held at least for reading.
func (f *Forest) orphan(v *view, ino uint64) (*tree.Inode, bool) {
	n, ok := v.orphans.get(ino)
	if ok || len(v.before) == 0 {
		return n, ok
	}
	if _, err := v.state.Get(f.src, ino); err == nil {
		return nil, false
	}
	for _, st := range v.before {
		if was, err := st.Get(f.src, ino); err == nil {
			n := *was
			n.Nlink, n.Links = 0, nil
			v.orphans.put(&n)
			return &n, true
		}
	}
	return nil, false
}
