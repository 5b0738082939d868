// Package loops runs what goes on in the background of a store.
package loops

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/guard"
)

// Forever is longer than a store is open.
const Forever = time.Duration(math.MaxInt64)

// panicPause is how long a loop rests after a panic.
const panicPause = 5 * time.Second

// A Group is the loops of a store. They run until it is closed.
type Group struct {
	Context context.Context // done when the store is being closed
	cancel  context.CancelFunc
	group   *sync.WaitGroup
	logger  *slog.Logger
	rest    time.Duration // after a panic
}

func New(logger *slog.Logger) Group {
	ctx, cancel := context.WithCancel(context.Background())
	return Group{ctx, cancel, &sync.WaitGroup{}, logger, panicPause}
}

// Start runs a loop until the store is closed: again, some time after it panicked.
func (b *Group) Start(what string, loop func()) {
	b.group.Go(func() {
		for b.Context.Err() == nil {
			guard.Call(b.logger, what, loop)
			b.Pause(b.rest)
		}
	})
}

// Go runs fn once, unless the store is being closed.
func (b *Group) Go(what string, fn func()) {
	if b.Context.Err() == nil {
		b.group.Go(func() { guard.Call(b.logger, what, fn) })
	}
}

// Pause returns after a time, or when the store is being closed.
func (b *Group) Pause(d time.Duration) { b.Await(nil, nil, d) }

// Await returns at a signal, when a channel is closed, which it reports, after a time, or
// when the store is being closed. A nil signal or channel never comes.
func (b *Group) Await(signal Wake, closed <-chan struct{}, d time.Duration) bool {
	select {
	case <-b.Context.Done():
	case <-signal:
	case <-closed:
		return true
	case <-time.After(d):
	}
	return false
}

func (b *Group) Stop() { b.cancel() }

// Wait returns when they have ended.
func (b *Group) Wait() { b.group.Wait() }

// While returns a context that ends with cause when needed reports false. It is called at intervals.
func While(ctx context.Context, interval time.Duration, cause error, needed func() bool) (while context.Context, stop func()) {
	while, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-while.Done():
				return
			case <-tick.C:
			}
			if !needed() {
				cancel(cause)
			}
		}
	}()
	return while, func() { cancel(nil) }
}

// A Wake is a signal to a loop. Signals that come while it works are one.
type Wake chan struct{}

func NewWake() Wake { return make(Wake, 1) }

func (w Wake) Up() {
	select {
	case w <- struct{}{}:
	default:
	}
}
