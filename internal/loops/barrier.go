package loops

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// A Barrier lets a caller wait until all callers that have entered it have left. Others can enter
// during the wait. Its zero value is ready for use.
type Barrier struct {
	waiting atomic.Int32
	mu      sync.Mutex
	inside  map[chan struct{}]struct{} // one channel for each caller inside, closed when it leaves
}

// HasWaiters reports whether a call of Wait is waiting now.
func (b *Barrier) HasWaiters() bool { return b.waiting.Load() > 0 }

// Enter enters the barrier. The caller must call leave.
func (b *Barrier) Enter() (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.inside == nil {
		b.inside = make(map[chan struct{}]struct{})
	}

	left := make(chan struct{})
	b.inside[left] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.inside, left)
		close(left)
	}
}

// Wait waits until all callers that are inside now have left. The error is the error of ctx.
func (b *Barrier) Wait(ctx context.Context) error {
	b.waiting.Add(1)
	defer b.waiting.Add(-1)

	b.mu.Lock()
	inside := slices.Collect(maps.Keys(b.inside))
	b.mu.Unlock()

	for _, left := range inside {
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	return ctx.Err()
}
