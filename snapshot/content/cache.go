package content

import (
	"container/list"
	"sync"

	"github.com/amberfs/amberfs/cas"
)

// A Cache maps hashes to values, up to a total weight in bytes. It drops the least
// recently used values first.
type Cache[V any] struct {
	mu    sync.Mutex
	items map[cas.Hash]*list.Element
	order *list.List // of *cacheItem[V], the most recently used first
	bytes int64
	limit int64
}

type cacheItem[V any] struct {
	hash  cas.Hash
	bytes int64
	value V
}

// NewCache returns an empty cache. limit is the largest total weight of its values in bytes.
func NewCache[V any](limit int64) *Cache[V] {
	return &Cache[V]{items: make(map[cas.Hash]*list.Element), order: list.New(), limit: limit}
}

// Get returns the value of h, which becomes the most recently used.
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

// Put adds a value of a weight in bytes, and removes an earlier value of h. A value whose weight alone is above
// the limit is not added.
func (c *Cache[V]) Put(h cas.Hash, v V, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if bytes > c.limit {
		return
	}
	if e := c.items[h]; e != nil {
		c.drop(e)
	}

	c.items[h] = c.order.PushFront(&cacheItem[V]{h, bytes, v})
	c.bytes += bytes
	for c.bytes > c.limit {
		c.drop(c.order.Back())
	}
}

func (c *Cache[V]) drop(e *list.Element) {
	old := c.order.Remove(e).(*cacheItem[V])
	delete(c.items, old.hash)
	c.bytes -= old.bytes
}

// Weight returns the total weight of the values in bytes.
func (c *Cache[V]) Weight() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
