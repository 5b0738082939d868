package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/guard"
)

// background runs the goroutines that belong to no request. After close it starts no goroutines. Its methods may still
// be called then, because the daemon closes the store later, and until then the store reports events.
type background struct {
	ctx    context.Context    // context of the goroutines
	cancel context.CancelFunc // ends ctx
	log    *slog.Logger

	mu     sync.Mutex // guards closed
	closed bool
	wg     sync.WaitGroup
}

func newBackground(log *slog.Logger) *background {
	b := &background{log: log}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// goGuarded runs fn in the background, and logs a panic. name is the name of fn in the log. close waits for fn.
func (b *background) goGuarded(name string, fn func()) {
	b.goUnlessClosed(func() { guard.Call(b.log, name, fn) })
}

// goLoggingError is goGuarded for a function that can fail. It logs the error, unless the daemon is ending.
func (b *background) goLoggingError(name string, fn func(context.Context) error) {
	b.goGuarded(name, func() {
		if err := fn(b.ctx); err != nil && b.ctx.Err() == nil {
			b.log.Warn(name, "err", err)
		}
	})
}

// goUnlessClosed calls fn on a goroutine, unless close was called.
func (b *background) goUnlessClosed(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.wg.Go(fn)
	}
}

// close returns when all goroutines have ended.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wg.Wait()
}

const (
	minRetryPause = 100 * time.Millisecond
	maxRetryPause = 5 * time.Second
)

// retryInBackground calls fn once and, if fn fails, again in the background until fn succeeds. It is for the steps of
// a takeover on which no later step depends. step is the name of the step in the log.
func (b *background) retryInBackground(step string, fn func() error) {
	err := fn()
	if err == nil {
		return
	}

	b.log.Warn(step+" has to wait", "err", err)
	b.goGuarded(step, func() {
		for pause := minRetryPause; ; pause = min(2*pause, maxRetryPause) {
			select {
			case <-b.ctx.Done():
				return
			case <-time.After(pause):
			}

			if fn() == nil {
				b.log.Info(step + " succeeded")
				return
			}
		}
	})
}
