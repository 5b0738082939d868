package budget

import (
	"context"
	"testing"
	"time"
)

// TestLine: a request that waits to be without bounds holds up no other tenant.
func TestLine(t *testing.T) {
	b := New(64 << 20)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	fork, main := b.Of("fork"), b.Of("main")
	first := fork.Charge()
	if err := first.All(ctx); err != nil {
		t.Fatal(err)
	}
	second := fork.Charge()
	ended := make(chan error, 1)
	go func() { ended <- second.All(ctx) }()
	for waiting := 0; waiting < 1; time.Sleep(time.Millisecond) {
		b.pool.mu.Lock()
		waiting = len(b.pool.waiting)
		b.pool.mu.Unlock()
	}
	got := make(chan error)
	go func() { got <- main.Charge().Add(ctx, 1<<20) }()
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("main waits for a fork")
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("it did not wait")
	}
	first.Release()
}
