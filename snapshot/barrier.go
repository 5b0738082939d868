package snapshot

import "sync"

// A barrier lets somebody wait for all who are inside, and keeps nobody out
// meanwhile. Its zero value is ready.
type barrier struct {
	mu     sync.Mutex
	inside *sync.WaitGroup // those who came since the last Lock
}

// enter counts the caller in until leave is called.
func (b *barrier) enter() (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside == nil {
		b.inside = new(sync.WaitGroup)
	}
	b.inside.Add(1)
	return b.inside.Done
}

// Lock waits for those who are inside now. One at a time may wait.
func (b *barrier) Lock() {
	b.mu.Lock()
	w := b.inside
	b.inside = nil
	b.mu.Unlock()
	if w != nil {
		w.Wait()
	}
}

// Unlock has nothing to do: nobody was kept out.
func (b *barrier) Unlock() {}
