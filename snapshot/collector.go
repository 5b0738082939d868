package snapshot

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/loops"
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

// collector knows when a gc pays, and what it has to leave alone.
type collector struct {
	*core
	ckpt *checkpointer
	room *room

	signal  loops.Wake    // something was removed, or more is stored
	puts    loops.Barrier // who puts objects that nothing refers to yet
	imports atomic.Int32  // under way

	removed atomic.Int64 // snapshots and forks, ever; see remove
	base    atomic.Int64 // bytes of packs after the last gc

	mu        sync.Mutex // guards what follows
	collected int64      // value of removed at the last gc
	seen      int64
	first     time.Time // of the removals since
	last      time.Time
}

// remove notes that a snapshot or a fork was removed.
func (g *collector) remove() {
	g.removed.Add(1)
	g.signal.Up()
}

// done notes that a gc took away what was removed until then, and how many
// bytes are left.
func (g *collector) done(removed, stored int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.base.Store(stored)
	g.collected, g.first = removed, time.Time{}
}

// any reports whether something was removed since the last gc.
func (g *collector) any() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.removed.Load() != g.collected
}

// due reports whether it is time for a gc.
func (g *collector) due(stored int64, now time.Time) bool {
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
func (g *collector) gcLoop() {
	for g.loops.Context.Err() == nil {
		if !g.any() {
			select {
			case <-g.loops.Context.Done():
			case <-g.signal:
			}
		}
		g.loops.Pause(keepTick)
		if g.loops.Context.Err() != nil || g.imports.Load() > 0 || !g.due(g.room.stored.Load(), time.Now()) {
			continue
		}
		if _, err := g.run(g.loops.Context, nil); err != nil && g.loops.Context.Err() == nil {
			g.logger.Warn("gc", "err", err, guard.Stack(err))
			g.loops.Pause(time.Minute)
		}
	}
}
