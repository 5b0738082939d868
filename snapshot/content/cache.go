package content

import (
	"container/list"
	"sync"

	"github.com/amberfs/amberfs/cas"
)

// A Cache keeps values by hash, up to a total weight in bytes; the values used
// longest ago go first.
type Cache[V any] struct {
	mu    sync.Mutex
	items map[cas.Hash]*list.Element
	order *list.List // of *cacheItem[V], the newest first
	bytes int64
	limit int64
}

type cacheItem[V any] struct {
	hash  cas.Hash
	bytes int64
	value V
}

// NewCache returns an empty cache for values that weigh up to limit bytes together.
func NewCache[V any](limit int64) *Cache[V] {
	return &Cache[V]{items: make(map[cas.Hash]*list.Element), order: list.New(), limit: limit}
}

// Get returns the value of h and makes it the newest.
func (c *Cache[V]) Get(h cas.Hash) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.items[h]
	if e == nil {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cacheItem[V]).value, true
}

// Put keeps v, which weighs the given number of bytes, unless that is more than all
// may. A value that is there already stays.
func (c *Cache[V]) Put(h cas.Hash, v V, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.items[h] != nil || bytes > c.limit {
		return
	}
	c.items[h] = c.order.PushFront(&cacheItem[V]{h, bytes, v})
	c.bytes += bytes
	for c.bytes > c.limit {
		old := c.order.Remove(c.order.Back()).(*cacheItem[V])
		delete(c.items, old.hash)
		c.bytes -= old.bytes
	}
}

// Weight returns the bytes that all values weigh together.
func (c *Cache[V]) Weight() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
