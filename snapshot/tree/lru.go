package tree

import (
	"sync"

	"github.com/amberfs/amberfs/cas"
)

// A small cache has few shards, so that each can hold several large values.
const (
	maxShards = 16
	minShard  = 4 << 20 // bytes
)

// lru keeps values by hash, up to a total weight in bytes; the values used
// longest ago go first. It is split into shards by the hash's first byte, so
// that readers on different processors seldom meet on one lock.
type lru[V any] struct {
	shards []lruShard[V]
}

type lruShard[V any] struct {
	mu    sync.Mutex
	items map[cas.Hash]*lruItem[V]
	ring  lruItem[V] // sentinel: ring.next is the newest, ring.prev the oldest
	bytes int64
	limit int64
}

type lruItem[V any] struct {
	next, prev *lruItem[V]
	hash       cas.Hash
	bytes      int64
	value      V
}

func newLRU[V any](limit int64) *lru[V] {
	n := min(max(limit/minShard, 1), maxShards)
	c := &lru[V]{shards: make([]lruShard[V], n)}
	for i := range c.shards {
		s := &c.shards[i]
		s.items = make(map[cas.Hash]*lruItem[V])
		s.ring.next, s.ring.prev = &s.ring, &s.ring
		s.limit = limit / n
	}
	return c
}

func (c *lru[V]) shard(h cas.Hash) *lruShard[V] { return &c.shards[int(h[0])%len(c.shards)] }

// get returns the value of h and makes it the newest.
func (c *lru[V]) get(h cas.Hash) (V, bool) {
	s := c.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[h]
	if it == nil {
		var zero V
		return zero, false
	}
	it.unlink()
	s.push(it)
	return it.value, true
}

// put keeps v, which weighs the given number of bytes, unless it is heavier
// than a whole shard may be. A value that is there already stays.
func (c *lru[V]) put(h cas.Hash, v V, bytes int64) {
	s := c.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[h] != nil || bytes > s.limit {
		return
	}
	it := &lruItem[V]{hash: h, bytes: bytes, value: v}
	s.items[h] = it
	s.push(it)
	s.bytes += bytes
	for s.bytes > s.limit {
		old := s.ring.prev
		old.unlink()
		delete(s.items, old.hash)
		s.bytes -= old.bytes
	}
}

// weight returns the bytes that all values weigh together.
func (c *lru[V]) weight() int64 {
	var n int64
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.bytes
		s.mu.Unlock()
	}
	return n
}

func (it *lruItem[V]) unlink() {
	it.prev.next, it.next.prev = it.next, it.prev
}

func (s *lruShard[V]) push(it *lruItem[V]) {
	it.prev, it.next = &s.ring, s.ring.next
	s.ring.next.prev = it
	s.ring.next = it
}
