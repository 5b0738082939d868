package turns

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestYield: a long computation gives way to another, and ends with its context.
func TestYield(t *testing.T) {
	turns := New(1)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	began, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- turns.Do(ctx, func(ctx context.Context) error {
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
		if err := turns.Do(context.Background(), func(context.Context) error { return nil }); err != nil {
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
	if !turns.free.TryAcquire(1) {
		t.Error("the turn is taken still")
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
	must(turns.Do(context.Background(), func(context.Context) error {
		ctx, stop := context.WithTimeout(context.Background(), time.Millisecond)
		defer stop()
		if err := turns.Do(ctx, func(context.Context) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		return nil
	}))
	must(turns.Do(context.Background(), func(context.Context) error { return nil }))
}
