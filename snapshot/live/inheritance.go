package live

import (
	"bytes"
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
	// Unanswered are nodes that the kernel may not hold yet, because it waits for the answer that
	// describes them. Settled returns those of them that it does not wait for.
	Unanswered map[NodeID]bool
	// Notices are what edits changed of which the kernel may not know.
	Notices []Invalidation
	// Stale are views of which the kernel may have outdated names, attributes and bytes, and
	// nobody knows which. By view: names that an edit changed in the root. Below a directory of
	// which the name is dropped, the kernel drops all.
	Stale map[uint32][]string
}

// Inherit returns the inheritance. Told must be called when the kernel knows of all notices
// and stale views.
func (f *Takeover) Inherit() (Inheritance, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	in := Inheritance{Notices: f.mu.inherited.notices, Stale: maps.Clone(f.mu.inherited.stale), Unanswered: f.requests.nodes()}
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
	stale   map[uint32][]string // see Inheritance
}

func newInherited() inherited {
	return inherited{stale: make(map[uint32][]string)}
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
		in.stale[e.base.id] = append(in.stale[e.base.id], e.rootNames()...)
	} else if !e.inv.Empty() {
		in.notices = append(in.notices, e.inv)
	}
}

// SetStale is Inheritance.Stale of the last checkpoint.
func (tx *Tx) SetStale(views map[uint32][][]byte) {
	for id, names := range views {
		all := make([]string, 0, len(names))
		for _, name := range names {
			all = append(all, string(name))
		}
		tx.f.mu.inherited.stale[id] = all
	}
}

// Stale returns the views with edits that the kernel may not know of, and the names that these
// changed in the root.
func (tx *Tx) Stale() map[uint32][][]byte {
	in, all := &tx.f.mu.inherited, make(map[uint32][][]byte)
	add := func(view uint32, names []string) {
		list := all[view]
		for _, name := range names {
			list = append(list, []byte(name))
		}
		all[view] = list
	}
	for view, edits := range tx.f.mu.untold {
		add(view, slices.Concat(edits...))
	}
	for view, names := range in.stale {
		add(view, names)
	}
	for _, inv := range in.notices {
		add(inv.view(), inv.rootNames())
	}
	for view, names := range all {
		slices.SortFunc(names, bytes.Compare)
		all[view] = slices.CompactFunc(names, bytes.Equal)
	}
	return all
}

// rootNames are the names in the root before an edit and after it.
func (e *Edit) rootNames() (names []string) {
	for _, st := range []*tree.State{e.base.state, e.to.State} {
		root, err := st.Get(e.to.Source, tree.RootIno)
		if err == nil {
			err = root.Dir.List(e.to.Source, 0, func(d tree.Dirent, _ uint64) bool {
				names = append(names, d.Name)
				return true
			})
		}
		if err != nil {
			e.f.logger.Warn("names that the kernel may have outdated", "view", e.base.id, "err", err)
		}
	}
	return names
}

// Noticed notes that the kernel knows of an edit, of which Tx.Apply returned what it
// replaced.
func (f *Takeover) Noticed(inv Invalidation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	view := inv.view()
	if f.mu.untold[view] = f.mu.untold[view][min(1, len(f.mu.untold[view])):]; len(f.mu.untold[view]) == 0 {
		delete(f.mu.untold, view)
	}
}
