package fusefs

import (
	"sync"

	"github.com/amberfs/amberfs/snapshot/live"
)

// lookups counts how often each node was handed to the kernel and not given
// back by FORGET. A node that the kernel holds keeps its bytes though its last
// name is gone.
type lookups struct {
	mu sync.Mutex
	n  map[live.NodeID]uint64
	// Of the nodes that a daemon before this one handed over, the count is not known: the
	// kernel holds each of them until it is asked (probes). They are those with numbers below
	// these two. released are those that it does not hold.
	ino      uint64
	view     uint32
	released map[live.NodeID]struct{}
	// Of inherited nodes that were looked up since: the directory, or several.
	via map[live.NodeID]live.NodeID
}

// several stands for more than one directory, or for none that is known.
const several live.NodeID = 0

// inherit takes all nodes with lower numbers for held.
func (l *lookups) inherit(ino uint64, view uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ino, l.view, l.released, l.via = ino, view, make(map[live.NodeID]struct{}), make(map[live.NodeID]live.NodeID)
}

// inherited reports whether the kernel may have a node from a daemon before.
func (l *lookups) inherited(id live.NodeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inheritedLocked(id)
}

func (l *lookups) inheritedLocked(id live.NodeID) bool {
	if id.Ino() >= l.ino || id.View() >= l.view {
		return false
	}
	_, ok := l.released[id]
	return !ok
}

// since returns how often an inherited node was looked up since, and in which directory.
func (l *lookups) since(id live.NodeID) (n uint64, via live.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[id], l.via[id]
}

// release notes that the kernel does not hold an inherited node, unless it was looked up more
// often than since said.
func (l *lookups) release(id live.NodeID, n uint64) bool {
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

// disinherit notes that the kernel does not hold an inherited node yet.
func (l *lookups) disinherit(id live.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released != nil {
		l.released[id] = struct{}{}
	}
}

// add counts one more, which was looked up in a directory.
func (l *lookups) add(id, via live.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.inheritedLocked(id) {
		if l.n[id] > 0 && l.via[id] != via {
			via = several
		}
		l.via[id] = via
	}

	l.n[id]++
}

// forget takes k away and reports whether none is left. That is unknown of a node that was
// inherited.
func (l *lookups) forget(id live.NodeID, k uint64) (gone, unknown bool) {
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

// held reports whether the kernel holds the node.
func (l *lookups) held(id live.NodeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[id] > 0 || l.inheritedLocked(id)
}

// count returns the number of nodes that the kernel holds.
func (l *lookups) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.n)
}

// watchable are the names in directories that the kernel holds. No others can be watched.
func (fs *filesystem) watchable(entries []live.Entry) (in []live.Entry) {
	for _, e := range entries {
		if e.Parent.Ino() == live.RootIno || fs.lookups.held(e.Parent) {
			in = append(in, e)
		}
	}
	return in
}
