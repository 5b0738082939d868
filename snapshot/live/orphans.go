package live

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// orphans are the inodes of a view that have lost their last name while the
// kernel holds them. They come with the forest's lock held for writing, and go
// with less: a whole tree that a restore has replaced is forgotten inode by
// inode, while others write.
type orphans struct {
	mu    sync.RWMutex
	files map[uint64]*tree.Inode
	trees []*formerTree
}

// A formerTree is a state that an edit has replaced, and the inodes of it that are
// orphans. They stay in the state until somebody asks for one: of a tree that was walked
// the kernel holds every inode, though nobody has it open.
type formerTree struct {
	state *tree.State
	held  map[uint64]uint64 // number / 64 → a bit for each
	n     int
}

// fewHeld is how many orphans are taken out of a former tree, so that it can go: it is
// kept on disk as a whole.
const fewHeld = 64

func (t *formerTree) add(ino uint64) {
	if t.held == nil {
		t.held = make(map[uint64]uint64)
	}
	t.held[ino/64] |= 1 << (ino % 64)
	t.n++
}

func (t *formerTree) has(ino uint64) bool { return t.held[ino/64]&(1<<(ino%64)) != 0 }

func (t *formerTree) remove(ino uint64) {
	if !t.has(ino) {
		return
	}
	if t.held[ino/64] &^= 1 << (ino % 64); t.held[ino/64] == 0 {
		delete(t.held, ino/64)
	}
	t.n--
}

func (t *formerTree) all() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for run, set := range t.held {
			for ; set != 0; set &= set - 1 {
				if !yield(run*64 + uint64(bits.TrailingZeros64(set))) {
					return
				}
			}
		}
	}
}

// get returns an orphan, taken out of its former tree if it was in one.
func (o *orphans) get(src *tree.Source, ino uint64) (*tree.Inode, bool) {
	o.mu.RLock()
	n, ok := o.files[ino]
	trees := len(o.trees)
	o.mu.RUnlock()
	if ok || trees == 0 {
		return n, ok
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.trees {
		if t.has(ino) && o.take(src, t, ino) != nil {
			break
		}
	}
	n, ok = o.files[ino]
	return n, ok
}

// take takes an orphan out of its former tree. o.mu is held.
func (o *orphans) take(src *tree.Source, t *formerTree, ino uint64) error {
	if _, ok := o.files[ino]; ok {
		t.remove(ino)
		return nil
	}
	n, err := t.state.Get(src, ino)
	if err == nil {
		t.remove(ino)
		o.add(orphanOf(n))
	}
	return err
}

// orphanOf is an inode of a former state without its names.
func orphanOf(n *tree.Inode) *tree.Inode {
	o := *n
	o.Nlink, o.Links = 0, nil
	return &o
}

func (o *orphans) add(n *tree.Inode) {
	if o.files == nil {
		o.files = make(map[uint64]*tree.Inode)
	}
	o.files[n.Ino] = n
}

func (o *orphans) put(n *tree.Inode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(n)
}

func (o *orphans) putTree(src *tree.Source, t *formerTree) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trees = append(o.trees, t)
	o.thin(src)
}

// thin takes the last few orphans out of former trees, and drops those that have none.
// What cannot be read stays. o.mu is held.
func (o *orphans) thin(src *tree.Source) {
	for _, t := range o.trees {
		if t.n <= fewHeld {
			for ino := range t.all() {
				if o.take(src, t, ino) != nil {
					break
				}
			}
		}
	}
	o.trees = slices.DeleteFunc(o.trees, func(t *formerTree) bool { return t.n == 0 })
}

func (o *orphans) remove(src *tree.Source, ino uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.files, ino)
	if len(o.files) == 0 {
		o.files = nil // a map keeps the size that it once had
	}
	few := false
	for _, t := range o.trees {
		if t.has(ino) {
			t.remove(ino)
			few = few || t.n == fewHeld || t.n == 0
		}
	}
	if few {
		o.thin(src)
	}
}

// each calls fn for the content of every orphan, and of whatever else a former tree has
// in memory that seen has not met.
func (o *orphans) each(seen *tree.Unsealed, fn func(*content.Content)) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for n := range maps.Values(o.files) {
		fn(n.Content)
	}
	for _, t := range o.trees {
		seen.Each(t.state, true, fn)
	}
}

// orphan returns an unlinked inode of a view. f.mu is held at least for reading.
func (f *Forest) orphan(v *view, ino uint64) (*tree.Inode, bool) {
	n, ok := v.orphans.get(f.src, ino)
	if ok || len(v.before) == 0 {
		return n, ok
	}
	if _, err := v.state.Get(f.src, ino); err == nil {
		return nil, false
	}
	for _, st := range v.before {
		if was, err := st.Get(f.src, ino); err == nil {
			n := orphanOf(was)
			v.orphans.put(n)
			return n, true
		}
	}
	return nil, false
}
