package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/loops"
)

func TestWhenAGCIsDue(t *testing.T) {
	now, left := time.Minute, int64(1<<40)
	g := Collector{Signal: loops.NewSignal(), CollectorParts: CollectorParts{
		StoredBytes: new(atomic.Int64), Elapsed: func() time.Duration { return now }, StorableBytes: func() int64 { return left },
	}}
	at := func(d time.Duration, stored int64) bool {
		defer func(was time.Duration) { now = was }(now)
		now += d
		g.StoredBytes.Store(stored)
		return g.IsDue()
	}
	if at(time.Hour, 1<<20) {
		t.Error("due though there is nothing to free")
	}
	g.CountRemoval(1 << 20)
	if at(gcDelay/2, 1<<20) {
		t.Error("due at once after a removal")
	}
	g.CountRemoval(0)
	if !at(gcDelay, 1<<20) {
		t.Error("not due after a removal and a pause")
	}
	g.BaseBytes.Store(1 << 30)
	if at(gcLongDelay/2, 1<<30) {
		t.Error("due for a thousandth of the store")
	}
	if !at(gcLongDelay, 1<<30) {
		t.Error("what is little is never given back")
	}
	if !at(gcDelay, 1<<30+100<<20) {
		t.Error("not due though what was stored since the last gc may be garbage")
	}
	left = 1 << 20
	if !at(gcDelay, 1<<30) {
		t.Error("not due though hardly more can be stored")
	}
	left = 1 << 40
	g.CountRemoval(100 << 20)
	if !at(gcDelay, 1<<30) {
		t.Error("not due after removals of a tenth of the store")
	}
	g.garbage.subtract(g.garbage.estimate(now), false)
	if at(time.Hour, 1<<30) || at(time.Hour, 1<<30+gcGrowthBytes) {
		t.Error("due again after a gc")
	}
	if !at(time.Hour, 2<<30) {
		t.Error("not due though the store has doubled")
	}
}

// TestImportFirst: a gc that is due does not begin during an import.
func TestImportFirst(t *testing.T) {
	g := Collector{Signal: loops.NewSignal(), CollectorParts: CollectorParts{StoredBytes: new(atomic.Int64), Elapsed: func() time.Duration { return 1 }}}
	done := g.ProtectImport()
	g.StoredBytes.Store(1 << 40)
	if g.IsDue() {
		t.Error("a gc begins and waits for an import, and checkpoints wait for the gc")
	}
	done()
	if !g.IsDue() {
		t.Error("no gc begins after the import")
	}
}
