package loops

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// A Barrier lets a caller wait for all that are inside, and keeps no caller out
// meanwhile. Its zero value is ready.
type Barrier struct {
	waiting atomic.Int32
	mu      sync.Mutex
	inside  map[chan struct{}]struct{} // closed by the caller that leaves
}

// Waited reports whether a caller waits.
func (b *Barrier) Waited() bool { return b.waiting.Load() > 0 }

// Enter counts the caller in until leave is called.
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

// Wait returns when all that are inside now have left, or with the context's
// error.
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
