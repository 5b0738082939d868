package live

import (
	"maps"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Takeover is what the forest and the kernel have to agree on: which nodes the kernel holds,
// which of its requests were carried out, and of which edits it knows. If the daemon dies, the
// next one that has the connection goes on from there.
type Takeover struct{ *trees }

// An Inheritance is what a daemon has to do that takes the connection to the kernel over
// from one that died.
type Inheritance struct {
	// Orphans are the nodes without a name that the kernel may hold. Forget must be called
	// for each that it does not hold.
	Orphans []NodeID
	// Notices are what edits changed of which the kernel may not know.
	Notices []Invalidation
	// Stale are views of which the kernel may have outdated names, attributes and bytes, and
	// nobody knows which.
	Stale []uint32
}

// Inherit returns the inheritance. Told must be called when the kernel knows of all notices
// and stale views.
func (f *Takeover) Inherit() (Inheritance, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	in := Inheritance{Notices: f.mu.inherited.notices, Stale: slices.Sorted(maps.Keys(f.mu.inherited.stale))}
	for id, v := range f.mu.views {
		inos, err := v.orphans.all(f.waiting)
		if err != nil {
			return in, tree.LoadError(err)
		}
		for _, ino := range inos {
			in.Orphans = append(in.Orphans, Node(id, ino))
		}
	}
	return in, nil
}

// Told notes that the kernel knows of all notices and stale views of the inheritance.
func (f *Takeover) Told() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.inherited = newInherited()
}

// Disinherit drops what recovery found of the connection to the kernel: it is over.
func (f *Takeover) Disinherit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disinherit()
}

// Connect begins a connection to the kernel that another daemon may take over. The kernel
// holds no node yet, and the numbers of requests begin again.
func (f *Takeover) Connect() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.failed != nil {
		return f.mu.failed
	}
	if _, err := f.log.AppendUrgent(recMount, nil, nil); err != nil {
		return err
	}
	f.disinherit()
	return nil
}

func (f *Takeover) disinherit() {
	f.requests.clear()
	f.mu.inherited = newInherited()
	for _, v := range f.mu.views {
		v.orphans.set(&tree.State{})
	}
}

// inherited is what recovery found of edits.
type inherited struct {
	notices []Invalidation
	views   map[uint32]bool // of the notices
	stale   map[uint32]bool
}

func newInherited() inherited {
	return inherited{views: make(map[uint32]bool), stale: make(map[uint32]bool)}
}

// findRemoved ends an edit that recovery makes again: the kernel may hold the inodes that
// it removed.
func (e *Edit) findRemoved() error {
	return e.base.state.Beyond(e.to.Source, e.to.State, func(n *tree.Inode) { e.removed = append(e.removed, n) })
}

// inherit takes note of an edit that recovery has made. The lock is held.
func (f *Takeover) inherit(e *Edit) {
	for _, n := range e.removed {
		e.base.orphans.put(f.waiting, f.mu.epoch, n)
	}
	for i := range e.inv.Entries {
		e.inv.Entries[i].Gone = e.inv.Entries[i].Was
	}
	in := &f.mu.inherited
	if e.sealed {
		in.stale[e.base.id] = true
	} else if !e.inv.Empty() {
		in.notices, in.views[e.base.id] = append(in.notices, e.inv), true
	}
}

// SetStale is Inheritance.Stale of the last checkpoint.
func (tx *Tx) SetStale(views []uint32) {
	for _, id := range views {
		tx.f.mu.inherited.stale[id] = true
	}
}

// Stale returns the views with edits that the kernel may not know of.
func (tx *Tx) Stale() []uint32 {
	in := &tx.f.mu.inherited
	views := slices.Concat(slices.Collect(maps.Keys(tx.f.mu.untold)), slices.Collect(maps.Keys(in.views)), slices.Collect(maps.Keys(in.stale)))
	slices.Sort(views)
	return slices.Compact(views)
}

// Noticed notes that the kernel knows of an edit, of which Tx.Apply returned what it
// replaced.
func (f *Takeover) Noticed(inv Invalidation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	view := inv.view()
	if f.mu.untold[view]--; f.mu.untold[view] <= 0 {
		delete(f.mu.untold, view)
	}
}
