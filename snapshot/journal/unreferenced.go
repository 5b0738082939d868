package journal

import (
	"math"
	"sync"
)

// Unreferenced are the positions of bytes that were written before the record that refers to
// them, so that the journal is not dropped in between.
type Unreferenced struct {
	log  *Journal
	mu   sync.Mutex
	open map[int64]int
}

// NewUnreferenced returns an empty set.
func NewUnreferenced(log *Journal) *Unreferenced {
	return &Unreferenced{log: log, open: make(map[int64]int)}
}

// Write appends a record that only has bytes. The caller calls done when a record refers to them,
// or none ever will. Urgent bytes may use the space that is reserved for a full disk.
func (b *Unreferenced) Write(t Type, p []byte, urgent bool) (pos int64, done func(), err error) {
	b.mu.Lock()
	floor := b.log.End() // the bytes will lie at or after it
	b.open[floor]++
	b.mu.Unlock()
	done = func() {
		b.mu.Lock()
		if b.open[floor]--; b.open[floor] == 0 {
			delete(b.open, floor)
		}
		b.mu.Unlock()
	}
	write := b.log.Append
	if urgent {
		write = b.log.AppendUrgent
	}
	if pos, err = write(t, nil, p); err != nil {
		done()
		return 0, nil, err
	}
	return pos, done, nil
}

// Lowest is the lowest of the positions, math.MaxInt64 if there is none.
func (b *Unreferenced) Lowest() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	low := int64(math.MaxInt64)
	for pos := range b.open {
		low = min(low, pos)
	}
	return low
}
