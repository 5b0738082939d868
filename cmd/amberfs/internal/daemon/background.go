package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/guard"
)

// background has the goroutines that belong to no request. The store takes snapshots, and reports
// events of them, until it is closed, so start may be called after close, and does nothing after it.
type background struct {
	life   context.Context    // of the work
	hangUp context.CancelFunc // cancels life
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

// later runs fn in the background. Only the end of the daemon waits for it. what names fn in the log.
func (b *background) later(what string, fn func()) {
	b.start(func() { guard.Call(b.log, what, fn) })
}

// work is later for a step that can fail. It logs the error, unless the end of the daemon is the reason.
func (b *background) work(what string, fn func(context.Context) error) {
	b.later(what, func() {
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

// retry calls fn, a step that a takeover can continue without. If fn fails, retry returns, and fn is called
// again in the background until it succeeds. what names the step in the log.
func (b *background) retry(what string, fn func() error) {
	err := fn()
	if err == nil {
		return
	}

	b.log.Warn(what+" has to wait", "err", err)
	b.later(what, func() {
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
