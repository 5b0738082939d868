package content

import (
	"slices"
	"sync"

	"github.com/amberfs/amberfs/cas"
)

const (
	// MaxAhead is how many files Source.Ahead is meant to keep that nobody has read, and
	// maxChunks how many chunks of them it keeps.
	MaxAhead  = 8
	maxChunks = 2 * MaxAhead
	// aheadSize is how long in bytes a file is at most that Source.Ahead expands: it
	// takes as long as a request or two.
	aheadSize = 64 << 10
)

// expanded are chunks of small files that were expanded before they were asked for. They
// are given out once: the reader keeps them.
type expanded struct {
	mu     sync.Mutex
	chunks []expandedChunk // the oldest first, at most maxChunks
	spare  [][]byte
}

type expandedChunk struct {
	hash cas.Hash
	raw  []byte
}

// Ahead expands a file that will probably be read, if it is sealed and small. Errors are
// left to whoever reads it.
func (s *Source) Ahead(c *Content) {
	b := c.Sealed()
	if b == nil || b.Size > aheadSize {
		return
	}
	for i := range b.Chunks {
		it := b.Chunks[i].item()
		if _, ok := s.cache.Get(it.hash); ok || !it.data() {
			continue
		}
		if raw, err := s.load(&it, s.ahead.buffer()); err == nil {
			s.ahead.put(it.hash, raw)
		}
	}
}

// buffer returns one to be put back with put.
func (x *expanded) buffer() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.chunks) == maxChunks {
		x.drop(0)
	}
	if n := len(x.spare); n > 0 {
		b := x.spare[n-1]
		x.spare = x.spare[:n-1]
		return b
	}
	return make([]byte, 0, aheadSize)
}

func (x *expanded) put(h cas.Hash, raw []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.chunks = append(x.chunks, expandedChunk{h, raw})
}

// drop lets go of a chunk. x.mu is held.
func (x *expanded) drop(i int) {
	x.spare = append(x.spare, x.chunks[i].raw)
	x.chunks = slices.Delete(x.chunks, i, i+1)
}

// take copies a part of a chunk to p if the chunk is there.
func (x *expanded) take(it *item, p []byte, at int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.chunks {
		if c := &x.chunks[i]; c.hash == it.hash && int64(len(c.raw)) == it.n {
			copy(p, c.raw[at:])
			x.drop(i)
			return true
		}
	}
	return false
}
