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
	_  [40]byte // a cache line each
}

func (l *lookups) shard(id live.NodeID) *lookupShard {
	return &l.shards[uint64(id)*0x9e3779b97f4a7c15>>58]
}

// add counts one more.
func (l *lookups) add(id live.NodeID) {
	s := l.shard(id)
	s.mu.Lock()
	if s.n == nil {
		s.n = make(map[live.NodeID]uint64)
	}
	s.n[id]++
	s.mu.Unlock()
}

// forget takes n away and reports whether none is left.
func (l *lookups) forget(id live.NodeID, n uint64) (gone bool) {
	s := l.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.n[id]
	if have > n {
		s.n[id] = have - n
		return false
	}
	delete(s.n, id)
	return true
}

// held reports whether the kernel holds the node.
func (l *lookups) held(id live.NodeID) bool {
	s := l.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[id] > 0
}

// count returns the number of nodes that the kernel holds.
func (l *lookups) count() int {
	total := 0
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		total += len(s.n)
		s.mu.Unlock()
	}
	return total
}
