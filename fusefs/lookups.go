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
}

// add counts one more.
func (l *lookups) add(id live.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n[id]++
}

// forget takes k away and reports whether none is left.
func (l *lookups) forget(id live.NodeID, k uint64) (gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n[id] > k {
		l.n[id] -= k
		return false
	}
	delete(l.n, id)
	return true
}

// held reports whether the kernel holds the node.
func (l *lookups) held(id live.NodeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[id] > 0
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
