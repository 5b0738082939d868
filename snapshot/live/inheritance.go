package live

import (
	"bytes"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Takeover has the methods for a daemon that takes over the connection to the kernel after another
// daemon died. The methods record and return the state that the forest shares with the kernel: the nodes
// to which the kernel has references, the requests that have taken effect, and the edits of which the
// kernel was notified.
type Takeover struct{ trees *trees }

// An Inheritance lists the tasks of a daemon that takes over the connection to the kernel from a daemon
// that died.
type Inheritance struct {
	// Orphans are the nodes without a name to which the kernel may have references. The daemon calls
	// Forget for each node to which the kernel has no reference.
	Orphans []NodeID
	// Unanswered are the nodes that are described in answers which the kernel may not have received. Without
	// such an answer, the kernel has no reference to the node. SettleRequests returns the nodes whose answers
	// the kernel has received.
	Unanswered map[NodeID]bool
	// Notices are the changes of edits of which the kernel may not have been notified.
	Notices []Invalidation
	// Stale maps a view to names in its root directory. At and below these names the kernel may have cached
	// outdated names, attributes and bytes after an edit. If the kernel drops the name of a directory, it
	// also drops all names below the directory.
	Stale map[uint32][]string
}

// Inherit returns the inheritance. The caller notifies the kernel of Inheritance.Notices and Inheritance.Stale,
// and then calls MarkInheritedNoticed.
func (t Takeover) Inherit() (Inheritance, error) {
	t.trees.mu.RLock()
	defer t.trees.mu.RUnlock()

	in := Inheritance{Notices: t.trees.mu.inherited.notices, Stale: maps.Clone(t.trees.mu.inherited.staleNames), Unanswered: t.trees.requests.inheritedNodes()}

	for id, v := range t.trees.mu.views {
		inos, err := v.orphans.inos(t.trees.waitingSrc)
		if err != nil {
			return in, tree.LoadError(err)
		}
		for _, ino := range inos {
			in.Orphans = append(in.Orphans, Node(id, ino))
		}
	}

	return in, nil
}

// MarkInheritedNoticed records that the kernel was notified of Inheritance.Notices and Inheritance.Stale.
func (t Takeover) MarkInheritedNoticed() {
	t.trees.mu.Lock()
	defer t.trees.mu.Unlock()
	t.trees.mu.inherited = newInheritedEdits()
}

// Disinherit drops the inheritance that recovery found, because the connection to the kernel has ended.
func (t Takeover) Disinherit() {
	t.trees.mu.Lock()
	defer t.trees.mu.Unlock()
	t.trees.disinherit()
}

// Connect begins a new connection to the kernel, which another daemon may take over. The kernel
// has no references yet, and the numbers of requests begin again.
func (t Takeover) Connect() error {
	t.trees.mu.Lock()
	defer t.trees.mu.Unlock()

	if t.trees.mu.failed != nil {
		return t.trees.mu.failed
	}
	if _, err := t.trees.log.Append(recMount, nil, nil, true); err != nil {
		return err
	}

	t.trees.disinherit()

	return nil
}

// disinherit does the work of Disinherit. The caller holds the forest's lock.
func (t *trees) disinherit() {
	t.requests.clear()
	t.mu.inherited = newInheritedEdits()
	for _, v := range t.mu.views {
		v.orphans.replaceAll(&tree.State{})
	}
}

// inheritedEdits are the edits that recovery found, see Inheritance.
type inheritedEdits struct {
	notices    []Invalidation
	staleNames map[uint32][]string
}

func newInheritedEdits() inheritedEdits {
	return inheritedEdits{staleNames: make(map[uint32][]string)}
}

// findRemovedInodes finds the inodes that an edit removes. The kernel may have references to them. Recovery calls
// it after the edit's last step.
func (e *Edit) findRemovedInodes() error {
	return e.view.state.EachNotIn(e.target.Source, e.target.State, func(n *tree.Inode) { e.removedInodes = append(e.removedInodes, n) })
}

// addToInheritance adds an edit that recovery applies to the inheritance: its removed inodes become orphans, and its
// changes become notices or stale names. The caller holds the forest's lock.
func (e *Edit) addToInheritance() {
	for _, n := range e.removedInodes {
		e.view.orphans.put(e.trees.waitingSrc, e.trees.mu.epoch, n)
	}
	for i := range e.invalidation.Entries {
		e.invalidation.Entries[i].HeldNode = e.invalidation.Entries[i].OldNode
	}

	in := &e.trees.mu.inherited
	if e.hasSealedResult {
		in.staleNames[e.view.id] = append(in.staleNames[e.view.id], e.rootNames()...)
	} else if !e.invalidation.IsEmpty() {
		in.notices = append(in.notices, e.invalidation)
	}
}

// SetStaleNames sets Inheritance.Stale to the views and names that the last checkpoint stored.
func (tx *Tx) SetStaleNames(views map[uint32][][]byte) {
	for id, names := range views {
		all := make([]string, 0, len(names))
		for _, name := range names {
			all = append(all, string(name))
		}

		tx.trees.mu.inherited.staleNames[id] = all
	}
}

// StaleNames returns names in the root directory of each view, for a checkpoint. Edits changed something at or
// below these names, and the kernel may not have been notified of the edits.
func (tx *Tx) StaleNames() map[uint32][][]byte {
	in, all := &tx.trees.mu.inherited, make(map[uint32][][]byte)
	add := func(view uint32, names []string) {
		list := all[view]
		for _, name := range names {
			list = append(list, []byte(name))
		}

		all[view] = list
	}
	for view, edits := range tx.trees.mu.unnoticed {
		add(view, slices.Concat(edits...))
	}
	for view, names := range in.staleNames {
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

// rootNames returns the names in the root directory before the edit and after it.
func (e *Edit) rootNames() (names []string) {
	for _, st := range []*tree.State{e.view.state, e.target.State} {
		root, err := st.Get(e.target.Source, tree.RootIno)
		if err == nil {
			err = root.Dir.List(e.target.Source, 0, func(d tree.Dirent, _ uint64) bool {
				names = append(names, d.Name)
				return true
			})
		}

		if err != nil {
			e.trees.logger.Warn("names that the kernel may have outdated", "view", e.view.id, "err", err)
		}
	}
	return names
}

// MarkNoticed records that the kernel was notified of an edit. inv is the result of Tx.Apply. The edits of a
// view must be passed in the order in which they were applied.
func (t Takeover) MarkNoticed(inv Invalidation) {
	t.trees.mu.Lock()
	defer t.trees.mu.Unlock()
	view := inv.view()
	if t.trees.mu.unnoticed[view] = t.trees.mu.unnoticed[view][min(1, len(t.trees.mu.unnoticed[view])):]; len(t.trees.mu.unnoticed[view]) == 0 {
		delete(t.trees.mu.unnoticed, view)
	}
}
