package fusefs

import (
	"math"
	"sync"

	"github.com/amberfs/amberfs/snapshot/live"
)

const (
	lookupShards = 64
	// lookupRun is how many nodes in a row are counted together: a tree that was made
	// or walked whole takes a few bytes for each.
	lookupRun = 8
)

// lookups counts how often each node was handed to the kernel and not given
// back by FORGET. A node that the kernel holds keeps its bytes though its last
// name is gone.
type lookups struct {
	shards [lookupShards]lookupShard
}

type lookupShard struct {
	mu sync.Mutex
	n  map[live.NodeID][lookupRun]uint32 // by the first node's number; no run is all zeros
	_  [40]byte                          // a cache line each
}

// at returns where a node is counted.
func (l *lookups) at(id live.NodeID) (s *lookupShard, run live.NodeID, i int) {
	run = id / lookupRun
	return &l.shards[uint64(run)*0x9e3779b97f4a7c15>>58], run, int(id % lookupRun)
}

// add counts one more. What has been handed over four billion times is held for good.
func (l *lookups) add(id live.NodeID) {
	s, run, i := l.at(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = make(map[live.NodeID][lookupRun]uint32)
	}
	n := s.n[run]
	if n[i] < math.MaxUint32 {
		n[i]++
		s.n[run] = n
	}
}

// forget takes k away and reports whether none is left.
func (l *lookups) forget(id live.NodeID, k uint64) (gone bool) {
	s, run, i := l.at(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.n[run]
	switch {
	case n[i] == math.MaxUint32:
		return false
	case uint64(n[i]) > k:
		n[i] -= uint32(k)
		s.n[run] = n
		return false
	}
	n[i] = 0
	if n == [lookupRun]uint32{} {
		delete(s.n, run)
	} else {
		s.n[run] = n
	}
	return true
}

// held reports whether the kernel holds the node.
func (l *lookups) held(id live.NodeID) bool {
	s, run, i := l.at(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[run][i] > 0
}

// count returns the number of nodes that the kernel holds.
func (l *lookups) count() int {
	total := 0
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, run := range s.n {
			for _, n := range run {
				if n > 0 {
					total++
				}
			}
		}
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
