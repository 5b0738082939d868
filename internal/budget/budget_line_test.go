package budget

import (
	"context"
	"testing"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// TestLine: a call of RemoveLimit that waits does not block requests of other tenants.
func TestLine(t *testing.T) {
	b := New(64 << 20)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	fork, main := b.ForTenant("fork"), b.ForTenant("main")
	first := fork.NewCharge()
	must.OK(t, first.RemoveLimit(ctx))
	second := fork.NewCharge()
	ended := make(chan error, 1)
	go func() { ended <- second.RemoveLimit(ctx) }()
	await.True(t, "the second waits", func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return len(b.pool.waiting) > 0
	})
	got := make(chan error)
	go func() { got <- main.NewCharge().Add(ctx, 1<<20) }()
	if err := await.Receive(t, "main waits for no fork", got); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("it did not wait")
	}
	first.Release()
}
