// Package lru is a cache of what was loaded by its hash.
package lru

import (
	"sync"

	"github.com/amberfs/amberfs/cas"
)

const maxShards = 16

// A Cache keeps values by hash, up to a total weight in bytes; the values used
// longest ago go first. It is split into shards by the hash's first byte, so
// that readers on different processors seldom meet on one lock.
type Cache[V any] struct {
	shards []shard[V]
}

type shard[V any] struct {
	mu    sync.Mutex
	items map[cas.Hash]*item[V]
	ring  item[V] // sentinel: ring.next is the newest, ring.prev the oldest
	bytes int64
	limit int64
}

type item[V any] struct {
	next, prev *item[V]
	hash       cas.Hash
	bytes      int64
	value      V
}

// New returns an empty cache for values that weigh up to limit bytes together. A
// value of more than largest bytes may not be kept.
func New[V any](limit, largest int64) *Cache[V] {
	n := min(max(limit/largest, 1), maxShards)
	c := &Cache[V]{shards: make([]shard[V], n)}
	for i := range c.shards {
		s := &c.shards[i]
		s.items = make(map[cas.Hash]*item[V])
		s.ring.next, s.ring.prev = &s.ring, &s.ring
		s.limit = limit / n
	}
	return c
}

func (c *Cache[V]) shardOf(h cas.Hash) *shard[V] { return &c.shards[int(h[0])%len(c.shards)] }

// Get returns the value of h and makes it the newest.
func (c *Cache[V]) Get(h cas.Hash) (V, bool) {
	s := c.shardOf(h)
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

// Put keeps v, which weighs the given number of bytes, unless it is heavier
// than a whole shard may be. A value that is there already stays.
func (c *Cache[V]) Put(h cas.Hash, v V, bytes int64) {
	s := c.shardOf(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[h] != nil || bytes > s.limit {
		return
	}
	it := &item[V]{hash: h, bytes: bytes, value: v}
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

// Weight returns the bytes that all values weigh together.
func (c *Cache[V]) Weight() int64 {
	var n int64
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.bytes
		s.mu.Unlock()
	}
	return n
}

func (it *item[V]) unlink() {
	it.prev.next, it.next.prev = it.next, it.prev
}

func (s *shard[V]) push(it *item[V]) {
	it.prev, it.next = &s.ring, s.ring.next
	s.ring.next.prev = it
	s.ring.next = it
}
