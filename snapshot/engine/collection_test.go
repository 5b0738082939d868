package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/loops"
)

func TestWhenAGCIsDue(t *testing.T) {
	now := time.Minute
	g := Collector{Signal: loops.NewWake(), CollectorParts: CollectorParts{Elapsed: func() time.Duration { return now }}}
	at := func(d time.Duration, stored int64) bool {
		defer func(was time.Duration) { now = was }(now)
		now += d
		return g.due(stored)
	}
	if at(time.Hour, 1<<20) {
		t.Error("due though there is nothing to free")
	}
	g.Removed()
	if at(delay/2, 0) {
		t.Error("due at once after a removal")
	}
	g.Removed()
	if !at(delay, 0) {
		t.Error("not due after a removal and a pause")
	}
	g.removed.Store(0)
	g.Base.Store(1 << 30)
	if at(time.Hour, 1<<30) || at(time.Hour, 1<<30+growth) {
		t.Error("due again after a gc")
	}
	if !at(time.Hour, 2<<30) {
		t.Error("not due though the store has doubled")
	}
}

// TestImportFirst: a gc that is due does not begin during an import.
func TestImportFirst(t *testing.T) {
	g := Collector{Signal: loops.NewWake(), CollectorParts: CollectorParts{Stored: new(atomic.Int64), Elapsed: func() time.Duration { return 1 }}}
	done := g.Import()
	g.Stored.Store(1 << 40)
	if g.begins() {
		t.Error("a gc begins and waits for an import, and checkpoints wait for the gc")
	}
	done()
	if !g.begins() {
		t.Error("no gc begins after the import")
	}
}
