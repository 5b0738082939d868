package turns

import (
	"context"
	"errors"
	"testing"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// TestYield: Yield lets another computation run, and returns an error when the context has ended.
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
		must.OK(t, turns.Do(context.Background(), func(context.Context) error { return nil }))
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := Yield(context.Background()); err != nil {
		t.Error(err)
	}
	if turns.free != 1 {
		t.Error("the turn is taken still")
	}
}

// TestWaitingEnds: a computation that is cancelled while it waits is removed from the queue.
func TestWaitingEnds(t *testing.T) {
	turns := New(1)
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	must(turns.Do(context.Background(), func(context.Context) error {
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- turns.Do(ctx, func(context.Context) error { return nil }) }()
		await.Blocked(t, 1, "(*turn).wait")
		stop()
		if err := await.Receive(t, "the end of waiting", ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		return nil
	}))
	must(turns.Do(context.Background(), func(context.Context) error { return nil }))
}

// TestTurnsExpire: the turn of a computation that waits for another computation expires, so that the other one gets
// a turn.
func TestTurnsExpire(t *testing.T) {
	turns := New(1)
	other, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- turns.Do(context.Background(), func(ctx context.Context) error {
			err := turns.Do(ctx, func(context.Context) error { return nil })
			<-other
			return errors.Join(err, Yield(ctx))
		})
	}()
	go func() {
		ended <- turns.Do(context.Background(), func(context.Context) error {
			close(other)
			return nil
		})
	}()
	for range 2 {
		if err := await.Receive(t, "the end of one that waits for another", ended); err != nil {
			t.Error(err)
		}
	}
	if turns.free != 1 || len(turns.running) > 0 {
		t.Errorf("%d turns are free, %d run", turns.free, len(turns.running))
	}
}

// TestFirst: a computation in the fast queue waits for at most one computation of the other queue.
func TestFirst(t *testing.T) {
	turns := New(1)
	begin := make(chan struct{})
	order := make(chan string, 20)
	do := func(ctx context.Context, name string) {
		go func() {
			_ = turns.Do(ctx, func(context.Context) error {
				order <- name
				return nil
			})
		}()
	}
	waiting := func() int {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		return len(turns.waiting[0]) + len(turns.waiting[1])
	}
	began := make(chan struct{})
	go turns.Do(context.Background(), func(context.Context) error {
		close(began)
		<-begin
		return nil
	})
	<-began
	for i := range 11 {
		ctx, name := context.Background(), "other"
		if i == 10 {
			ctx, name = WithFastQueue(ctx), "first"
		}
		do(ctx, name)
		await.True(t, "it waits", func() bool { return waiting() > i })
	}
	close(begin)
	for i := range 11 {
		if name := <-order; name == "first" && i > 1 {
			t.Errorf("it was number %d to run", i+1)
		}
	}
}
