package takeover

import (
	"sync"

	"github.com/amberfs/amberfs/snapshot/live"
)

// Lookups counts the references of the kernel to each node: how often the node was handed over to the kernel
// by an answer, less the references that FORGET dropped. The kernel holds a node while it has references.
// Such a node keeps its bytes even if its last name was removed.
type Lookups struct {
	mu sync.Mutex // guards the fields below
	n  map[live.NodeID]uint64
	// After a takeover, the nodes whose inode number is below ino and whose view is below view are inherited:
	// the earlier daemon may have handed them over. The number of references to them is not known, and the
	// kernel is assumed to hold them. released are the inherited nodes that the kernel does not hold, see
	// Probes.
	ino      uint64
	view     uint32
	released map[live.NodeID]struct{}
	// via has, for each inherited node that was looked up after the takeover, the directory of the
	// lookups, or Several.
	via map[live.NodeID]live.NodeID
}

// NewLookups returns the lookups of a mount to which the kernel has no references yet.
func NewLookups() *Lookups { return &Lookups{n: make(map[live.NodeID]uint64)} }

// Several stands for more than one directory, or for an unknown one.
const Several live.NodeID = 0

// Inherit records that all nodes with a lower inode number and a lower view are inherited.
func (l *Lookups) Inherit(ino uint64, view uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ino, l.view, l.released, l.via = ino, view, make(map[live.NodeID]struct{}), make(map[live.NodeID]live.NodeID)
}

// Inherited reports whether the kernel may hold a node that the earlier daemon handed over.
func (l *Lookups) Inherited(id live.NodeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inheritedLocked(id)
}

// inheritedLocked is Inherited for callers that hold l.mu.
func (l *Lookups) inheritedLocked(id live.NodeID) bool {
	if id.Ino() >= l.ino || id.View() >= l.view {
		return false
	}
	_, ok := l.released[id]
	return !ok
}

// sinceTakeover returns how often an inherited node was looked up after the takeover, and in which
// directory.
func (l *Lookups) sinceTakeover(id live.NodeID) (n uint64, via live.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[id], l.via[id]
}

// release records that the kernel does not hold an inherited node. If the node was looked up more than
// n times after the takeover, release changes nothing and returns false.
func (l *Lookups) release(id live.NodeID, n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	if !l.inheritedLocked(id) || l.n[id] > n {
		return false
	}

	delete(l.n, id)
	delete(l.via, id)
	l.released[id] = struct{}{}

	return true
}

// Disinherit records that the kernel does not hold an inherited node yet. From then on the references to the
// node are counted like those to a new node.
func (l *Lookups) Disinherit(id live.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released != nil {
		l.released[id] = struct{}{}
	}
}

// Add counts one more reference to a node, which was looked up in the directory via.
func (l *Lookups) Add(id, via live.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.inheritedLocked(id) {
		if l.n[id] > 0 && l.via[id] != via {
			via = Several
		}
		l.via[id] = via
	}

	l.n[id]++
}

// Forget subtracts k references to a node. last reports that the kernel has no reference any more. unknown
// reports that the node is inherited, so that its references are not counted.
func (l *Lookups) Forget(id live.NodeID, k uint64) (last, unknown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.inheritedLocked(id) {
		return false, true
	}

	if l.n[id] > k {
		l.n[id] -= k
		return false, false
	}

	delete(l.n, id)

	return true, false
}

// Held reports whether the kernel holds, or may hold, the node.
func (l *Lookups) Held(id live.NodeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[id] > 0 || l.inheritedLocked(id)
}

// Count returns the number of nodes that this daemon has handed over and the kernel holds.
func (l *Lookups) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.n)
}

// Watchable returns the names in directories that the kernel holds. Only such directories can have
// watchers.
func (l *Lookups) Watchable(entries []live.Entry) (watched []live.Entry) {
	for _, e := range entries {
		if e.Parent.Ino() == live.RootIno || l.Held(e.Parent) {
			watched = append(watched, e)
		}
	}
	return watched
}
