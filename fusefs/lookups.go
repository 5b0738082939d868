package fusefs

import (
	"sync"

	"github.com/amberfs/amberfs/snapshot/live"
)

const lookupShards = 64

// lookups counts how often each node was handed to the kernel and not given
// back by FORGET. A node that the kernel holds keeps its bytes though its last
// name is gone.
type lookups struct {
	shards [lookupShards]lookupShard
}

type lookupShard struct {
	mu sync.Mutex
	n  map[live.NodeID]uint64
	_  [48]byte // a cache line each
}

func (l *lookups) at(id live.NodeID) *lookupShard {
	return &l.shards[uint64(id)*0x9e3779b97f4a7c15>>58]
}

// add counts one more.
func (l *lookups) add(id live.NodeID) {
	s := l.at(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = make(map[live.NodeID]uint64)
	}
	s.n[id]++
}

// forget takes k away and reports whether none is left.
func (l *lookups) forget(id live.NodeID, k uint64) (gone bool) {
	s := l.at(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[id] > k {
		s.n[id] -= k
		return false
	}
	delete(s.n, id)
	return true
}

// held reports whether the kernel holds the node.
func (l *lookups) held(id live.NodeID) bool {
	s := l.at(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[id] > 0
}

// count returns the number of nodes that the kernel holds.
func (l *lookups) count() (total int) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		total += len(s.n)
		s.mu.Unlock()
	}
	return total
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
