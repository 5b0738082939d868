// Package loops runs what goes on in the background of a store.
package loops

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/internal/guard"
)

// panicPause is how long a loop rests after a panic.
const panicPause = 5 * time.Second

// A Group is the loops of a store. They run until it is closed.
type Group struct {
	Context context.Context // done when the store is being closed
	cancel  context.CancelFunc
	group   *errgroup.Group
	logger  *slog.Logger
	rest    time.Duration // after a panic
}

func New(logger *slog.Logger) Group {
	ctx, cancel := context.WithCancel(context.Background())
	return Group{ctx, cancel, &errgroup.Group{}, logger, panicPause}
}

// Start runs a loop until the store is closed: again, some time after it panicked.
func (b *Group) Start(what string, loop func()) {
	b.group.Go(func() error {
		for b.Context.Err() == nil {
			guard.Call(b.logger, what, loop)
			b.Pause(b.rest)
		}
		return nil
	})
}

// Pause returns after a time, or when the store is being closed.
func (b *Group) Pause(d time.Duration) {
	select {
	case <-b.Context.Done():
	case <-time.After(d):
	}
}

func (b *Group) Stop() {
	if b.cancel != nil {
		b.cancel()
	}
}

// Wait returns when they have ended.
func (b *Group) Wait() { _ = b.group.Wait() } // the loops log their errors

// A Wake is a signal to a loop. Signals that come while it works are one.
type Wake chan struct{}

func NewWake() Wake { return make(Wake, 1) }

func (w Wake) Up() {
	select {
	case w <- struct{}{}:
	default:
	}
}
