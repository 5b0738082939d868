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
	// counts has the number of references to each node. For an inherited node it has the number of references
	// since the takeover.
	counts map[live.NodeID]uint64
	// After a takeover, the nodes whose inode number is below firstNewIno and whose view is below firstNewView are
	// inherited: the earlier daemon may have handed them over. The number of references to them is not known, and
	// the kernel is assumed to hold them. released are the inherited nodes that the kernel does not hold, see
	// Probes.
	firstNewIno  uint64
	firstNewView uint32
	released     map[live.NodeID]struct{}
	// lookupDirs has, for each inherited node that was looked up after the takeover, the directory of the
	// lookups, or SeveralDirs.
	lookupDirs map[live.NodeID]live.NodeID
}

// NewLookups returns the lookups of a mount to which the kernel has no references yet.
func NewLookups() *Lookups { return &Lookups{counts: make(map[live.NodeID]uint64)} }

// SeveralDirs is used instead of the id of a directory if there are several directories, or if the directory is
// not known.
const SeveralDirs live.NodeID = 0

// Inherit records that all nodes with an inode number below ino and a view below view are inherited.
func (l *Lookups) Inherit(ino uint64, view uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.firstNewIno, l.firstNewView, l.released, l.lookupDirs = ino, view, make(map[live.NodeID]struct{}), make(map[live.NodeID]live.NodeID)
}

// IsInherited reports whether the kernel may hold a node that the earlier daemon handed over.
func (l *Lookups) IsInherited(id live.NodeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inheritedLocked(id)
}

// inheritedLocked is IsInherited for callers that hold l.mu.
func (l *Lookups) inheritedLocked(id live.NodeID) bool {
	if id.Ino() >= l.firstNewIno || id.View() >= l.firstNewView {
		return false
	}
	_, ok := l.released[id]
	return !ok
}

// lookupsSinceTakeover returns how often an inherited node was looked up after the takeover, and the directory of
// these lookups, or SeveralDirs.
func (l *Lookups) lookupsSinceTakeover(id live.NodeID) (n uint64, dir live.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[id], l.lookupDirs[id]
}

// release records that the kernel does not hold an inherited node. If the node was looked up more than
// n times after the takeover, release changes nothing and returns false.
func (l *Lookups) release(id live.NodeID, n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	if !l.inheritedLocked(id) || l.counts[id] > n {
		return false
	}

	delete(l.counts, id)
	delete(l.lookupDirs, id)
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

// Add counts one more reference to a node. dir is the directory in which the node was looked up, or SeveralDirs.
func (l *Lookups) Add(id, dir live.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.inheritedLocked(id) {
		if l.counts[id] > 0 && l.lookupDirs[id] != dir {
			dir = SeveralDirs
		}
		l.lookupDirs[id] = dir
	}

	l.counts[id]++
}

// Forget subtracts n references to a node. last reports whether the kernel has no further references. unknown
// reports whether the node is inherited: then the number of its references is not known.
func (l *Lookups) Forget(id live.NodeID, n uint64) (last, unknown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.inheritedLocked(id) {
		return false, true
	}

	if l.counts[id] > n {
		l.counts[id] -= n
		return false, false
	}

	delete(l.counts, id)

	return true, false
}

// IsHeld reports whether the kernel holds, or may hold, the node.
func (l *Lookups) IsHeld(id live.NodeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[id] > 0 || l.inheritedLocked(id)
}

// Count returns the number of nodes that this daemon has handed over and the kernel holds.
func (l *Lookups) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.counts)
}

// WatchableNames returns the names in directories that the kernel holds. Only such directories can have
// watchers.
func (l *Lookups) WatchableNames(entries []live.Entry) (watchable []live.Entry) {
	for _, e := range entries {
		if e.Parent.Ino() == live.RootIno || l.IsHeld(e.Parent) {
			watchable = append(watchable, e)
		}
	}
	return watchable
}
