package snapshot

import (
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/loops"
	"github.com/amberfs/amberfs/snapshot/room"
)

const (
	// gcDelay is how long after a removal the space is given back. What is removed until
	// then goes with it.
	gcDelay = 2 * time.Minute
	// gcGrowth is how many bytes more than after the last gc make one due when
	// nothing was removed: what checkpoints stored of a state that has changed
	// since is garbage too.
	gcGrowth = 256 << 20
)

// collector decides when a gc pays, and waits for what must not be collected.
type collector struct {
	*core
	ckpt *checkpointer
	room *room.Room

	signal  loops.Wake    // something was removed, or more is stored
	puts    loops.Barrier // who puts objects that nothing refers to yet
	imports atomic.Int32  // under way

	removed atomic.Int64 // ns, when something was first removed that no gc took away; 0: nothing
	base    atomic.Int64 // bytes of packs after the last gc
}

// remove notes that a snapshot or a fork was removed.
func (g *collector) remove() {
	g.removed.CompareAndSwap(0, time.Now().UnixNano())
	g.signal.Up()
}

// any reports whether something was removed since the last gc.
func (g *collector) any() bool { return g.removed.Load() != 0 }

// due reports whether it is time for a gc.
func (g *collector) due(stored int64, now time.Time) bool {
	base := g.base.Load()
	return stored-base > max(gcGrowth, base/2) || g.any() && now.UnixNano()-g.removed.Load() >= int64(gcDelay)
}

// begins reports whether an automatic gc begins now.
func (g *collector) begins(now time.Time) bool {
	return g.imports.Load() == 0 && g.due(g.room.Stored.Load(), now)
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
		g.loops.Pause(time.Second)
		if g.loops.Context.Err() != nil || !g.begins(time.Now()) {
			continue
		}
		if _, err := g.run(g.loops.Context, nil); err != nil && g.loops.Context.Err() == nil {
			g.logger.Warn("gc", "err", err, guard.Stack(err))
			g.loops.Pause(time.Minute)
		}
	}
}
