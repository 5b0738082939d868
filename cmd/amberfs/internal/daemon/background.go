package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/guard"
)

// background runs the goroutines that belong to no request. start may be called after close, and then does
// nothing: the store takes snapshots and reports events, which start goroutines, until it is closed.
type background struct {
	life   context.Context    // context of the goroutines
	hangUp context.CancelFunc // ends life
	log    *slog.Logger

	mu      sync.Mutex // guards closed
	closed  bool
	running sync.WaitGroup
}

func newBackground(log *slog.Logger) *background {
	b := &background{log: log}
	b.life, b.hangUp = context.WithCancel(context.Background())
	return b
}

// goGuarded runs fn in the background, and logs a panic. what names fn in the log. close waits for fn.
func (b *background) goGuarded(what string, fn func()) {
	b.start(func() { guard.Call(b.log, what, fn) })
}

// goFailing is goGuarded for a function that can fail. It logs the error, unless the daemon is ending.
func (b *background) goFailing(what string, fn func(context.Context) error) {
	b.goGuarded(what, func() {
		if err := fn(b.life); err != nil && b.life.Err() == nil {
			b.log.Warn(what, "err", err)
		}
	})
}

// start calls fn on a goroutine.
func (b *background) start(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Go(fn)
	}
}

// close returns when all goroutines have ended.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// retry calls fn, a step of a takeover without which the takeover can continue. If fn fails, retry returns, and
// repeats fn in the background until it succeeds. what names the step in the log.
func (b *background) retry(what string, fn func() error) {
	err := fn()
	if err == nil {
		return
	}

	b.log.Warn(what+" has to wait", "err", err)
	b.goGuarded(what, func() {
		for pause := firstPause; ; pause = min(2*pause, longestPause) {
			select {
			case <-b.life.Done():
				return
			case <-time.After(pause):
			}

			if fn() == nil {
				b.log.Info(what + " succeeded")
				return
			}
		}
	})
}
