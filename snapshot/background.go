package snapshot

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/internal/guard"
)

// panicPause is how long a loop rests after a panic.
const panicPause = 5 * time.Second

// background is what a store does by itself until it is closed.
type background struct {
	ctx    context.Context // done when the store is being closed
	cancel context.CancelFunc
	group  *errgroup.Group
	logger *slog.Logger
	rest   time.Duration // after a panic
}

func newBackground(logger *slog.Logger) background {
	ctx, cancel := context.WithCancel(context.Background())
	return background{ctx, cancel, &errgroup.Group{}, logger, panicPause}
}

// start runs a loop until the store is closed: again, some time after it panicked.
func (b *background) start(what string, loop func()) {
	b.group.Go(func() error {
		for b.ctx.Err() == nil {
			guard.Call(b.logger, what, loop)
			b.pause(b.rest)
		}
		return nil
	})
}

func (b *background) pause(d time.Duration) {
	select {
	case <-b.ctx.Done():
	case <-time.After(d):
	}
}

func (b *background) stop() {
	if b.cancel != nil {
		b.cancel()
	}
}

func (b *background) wait() { _ = b.group.Wait() } // the loops log their errors

// A wake is a signal to a loop. Signals that come while it works are one.
type wake chan struct{}

func newWake() wake { return make(wake, 1) }

func (w wake) up() {
	select {
	case w <- struct{}{}:
	default:
	}
}
