package turns

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestTenantsTakeTurns: a tenant that queued many computations first does not make
// another one wait for all of them.
func TestTenantsTakeTurns(t *testing.T) {
	turns := New(1)
	order := make(chan string, 10)
	hold := make(chan struct{})
	run := func(tenant string) {
		_ = turns.Do(context.Background(), tenant, func(context.Context) error {
			<-hold
			order <- tenant
			return nil
		})
	}
	queued := func() (n int) {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		for _, q := range turns.waiting {
			n += len(q.ready)
		}
		return n
	}
	start := func(tenant string, waiting int) {
		go run(tenant)
		for queued() < waiting {
			time.Sleep(time.Millisecond)
		}
	}
	go run("greedy")
	for turns.running() == 0 {
		time.Sleep(time.Millisecond)
	}
	for i := range 5 {
		start("greedy", i+1)
	}
	start("other", 6)
	close(hold)
	for i := range 7 {
		if who := <-order; (who == "other") != (i == 2) {
			t.Errorf("turn %d is that of %s", i, who)
		}
	}
}

func (t *Turns) running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return 1 - t.free
}

// TestYield: a long computation gives way to another tenant, and ends with its context.
func TestYield(t *testing.T) {
	turns := New(1)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	began, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- turns.Do(ctx, "long", func(ctx context.Context) error {
			close(began)
			for {
				if err := Yield(ctx); err != nil {
					return err
				}
			}
		})
	}()
	<-began
	for range 3 {
		if err := turns.Do(context.Background(), "short", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := Yield(context.Background()); err != nil {
		t.Error(err)
	}
	if turns.free != 1 {
		t.Errorf("%d turns are free", turns.free)
	}
}

// TestWaitingEnds: a computation that is cancelled while it waits leaves the line.
func TestWaitingEnds(t *testing.T) {
	turns := New(1)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(turns.Do(context.Background(), 1, func(context.Context) error {
		ctx, stop := context.WithTimeout(context.Background(), time.Millisecond)
		defer stop()
		if err := turns.Do(ctx, 2, func(context.Context) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		return nil
	}))
	must(turns.Do(context.Background(), 3, func(context.Context) error { return nil }))
}
