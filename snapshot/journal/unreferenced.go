package journal

import (
	"math"
	"sync"
)

// UnreferencedBytes is the set of the positions of bytes to which no record refers yet. The owner of the journal
// must not drop segments at or after Lowest.
type UnreferencedBytes struct {
	log    *Journal
	mu     sync.Mutex
	counts map[int64]int // by a lower bound of their position: the number of byte runs to which no record refers yet
}

// NewUnreferencedBytes returns an empty set.
func NewUnreferencedBytes(log *Journal) *UnreferencedBytes {
	return &UnreferencedBytes{log: log, counts: make(map[int64]int)}
}

// Write appends a record of type t with the bytes p, and returns the position of the bytes. The caller
// calls done after it has appended a record that refers to the bytes, or when it will not append one.
// For urgent, see Append.
func (b *UnreferencedBytes) Write(t Type, p []byte, urgent bool) (pos int64, done func(), err error) {
	b.mu.Lock()
	floor := b.log.End() // not higher than the position that the bytes will have
	b.counts[floor]++
	b.mu.Unlock()
	done = func() {
		b.mu.Lock()
		if b.counts[floor]--; b.counts[floor] == 0 {
			delete(b.counts, floor)
		}

		b.mu.Unlock()
	}

	if pos, err = b.log.Append(t, nil, p, urgent); err != nil {
		done()
		return 0, nil, err
	}

	return pos, done, nil
}

// Lowest returns a position that is not higher than any position in the set, or math.MaxInt64 if the set is
// empty.
func (b *UnreferencedBytes) Lowest() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()

	low := int64(math.MaxInt64)
	for pos := range b.counts {
		low = min(low, pos)
	}

	return low
}
