// Package loops runs the background work of a store.
package loops

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/guard"
)

// Forever is longer than any store stays open.
const Forever = time.Duration(math.MaxInt64)

// panicPause is the pause before a loop is started again after a panic.
const panicPause = 5 * time.Second

// A Group has the background goroutines of a store.
type Group struct {
	Context      context.Context // ended by Stop
	cancel       context.CancelFunc
	group        *sync.WaitGroup
	logger       *slog.Logger
	restartPause time.Duration // equal to panicPause, except in tests
}

// New returns a group without goroutines.
func New(logger *slog.Logger) Group {
	ctx, cancel := context.WithCancel(context.Background())
	return Group{ctx, cancel, &sync.WaitGroup{}, logger, panicPause}
}

// Start runs a loop until Stop. The loop must return when Context is done. If it panics, it is started again after a
// pause.
func (b *Group) Start(name string, loop func()) {
	b.group.Go(func() {
		for b.Context.Err() == nil {
			guard.Call(b.logger, name, loop)
			b.Pause(b.restartPause)
		}
	})
}

// Go runs fn once in the background, unless Stop was called.
func (b *Group) Go(name string, fn func()) {
	if b.Context.Err() == nil {
		b.group.Go(func() { guard.Call(b.logger, name, fn) })
	}
}

// Pause waits for d, or until Stop.
func (b *Group) Pause(d time.Duration) { b.Await(nil, nil, d) }

// Await waits until the first of these events: signal is sent, closed is closed, the time d has passed, Stop is
// called. It reports whether the event was the close of closed. signal and closed may be nil.
func (b *Group) Await(signal Signal, closed <-chan struct{}, d time.Duration) bool {
	select {
	case <-b.Context.Done():
	case <-signal:
	case <-closed:
		return true
	case <-time.After(d):
	}
	return false
}

// Stop ends the context of the group. It does not wait.
func (b *Group) Stop() { b.cancel() }

// Wait waits until all goroutines of the group have ended.
func (b *Group) Wait() { b.group.Wait() }

// WhileNeeded returns a context that ends with cause when needed returns false. It calls needed at intervals.
// The caller must call stop.
func WhileNeeded(ctx context.Context, interval time.Duration, cause error, needed func() bool) (needCtx context.Context, stop func()) {
	needCtx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-needCtx.Done():
				return
			case <-tick.C:
			}

			if !needed() {
				cancel(cause)
			}
		}
	}()

	return needCtx, func() { cancel(nil) }
}

// A Signal is a signal to a loop. If it is sent several times before the loop receives it, the loop receives
// it once.
type Signal chan struct{}

// NewSignal returns a signal that has not been sent yet.
func NewSignal() Signal { return make(Signal, 1) }

// Send sends the signal. It does not block.
func (w Signal) Send() {
	select {
	case w <- struct{}{}:
	default:
	}
}
