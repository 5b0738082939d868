package snapshot

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas/guard"
)

const (
	// gcDelay is how long after the last removal the space is given back by
	// itself; removals that never pause put it off no longer than gcLongest.
	gcDelay   = time.Minute
	gcLongest = 5 * gcDelay
	// gcGrowth is how many bytes more than after the last gc make one due when
	// nothing was removed: what checkpoints stored of a state that has changed
	// since is garbage too.
	gcGrowth = 256 << 20
)

// garbage tells when a gc pays.
type garbage struct {
	removed atomic.Int64 // snapshots and forks, ever
	base    atomic.Int64 // bytes of packs after the last gc

	mu        sync.Mutex
	collected int64 // value of removed at the last gc
	seen      int64
	first     time.Time // of the removals since
	last      time.Time
}

// done notes that a gc took away what was removed until then, and how many
// bytes are left.
func (g *garbage) done(removed, stored int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.base.Store(stored)
	g.collected, g.first = removed, time.Time{}
}

// any reports whether something was removed since the last gc.
func (g *garbage) any() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.removed.Load() != g.collected
}

// due reports whether it is time for a gc.
func (g *garbage) due(stored int64, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	base := g.base.Load()
	if stored-base > max(gcGrowth, base/2) {
		return true
	}
	n := g.removed.Load()
	if n == g.collected {
		return false
	}
	if g.first.IsZero() {
		g.first = now
	}
	if n != g.seen {
		g.seen, g.last = n, now
	}
	return now.Sub(g.last) >= gcDelay || now.Sub(g.first) >= gcLongest
}

// gcLoop gives space back when it is time. It does not begin while an import is
// under way: what is put while a gc waits for it is kept by that gc.
func (s *Store) gcLoop() {
	for s.ctx.Err() == nil {
		s.pause(keepTick)
		if s.ctx.Err() != nil || s.imports.Load() > 0 || !s.garbage.due(s.stored.Load(), time.Now()) {
			continue
		}
		if _, err := s.GC(s.ctx, nil); err != nil && s.ctx.Err() == nil {
			s.logger.Warn("gc", "error", err, guard.Stack(err))
			s.pause(time.Minute)
		}
	}
}
