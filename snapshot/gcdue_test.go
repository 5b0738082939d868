package snapshot

import (
	"testing"
	"time"
)

func TestWhenAGCIsDue(t *testing.T) {
	var g garbage
	start := time.Now()
	at := func(d time.Duration, stored int64) bool { return g.due(stored, start.Add(d)) }
	if at(time.Hour, 1<<20) {
		t.Error("due though there is nothing to free")
	}
	g.removed.Add(1)
	if at(time.Hour, 0) || at(time.Hour+gcDelay/2, 0) {
		t.Error("due at once after a removal")
	}
	if !at(time.Hour+gcDelay, 0) {
		t.Error("not due after a removal and a pause")
	}
	g.done(1, 1<<30)
	if at(2*time.Hour, 1<<30) || at(2*time.Hour, 1<<30+gcGrowth) {
		t.Error("due again after a gc")
	}
	if !at(2*time.Hour, 2<<30) {
		t.Error("not due though the store has doubled")
	}
	// Removals without a pause.
	for d := time.Duration(0); ; d += time.Second {
		g.removed.Add(1)
		if at(3*time.Hour+d, 1<<30) {
			break
		}
		if d > gcLongest {
			t.Fatal("removals that never pause put gc off for ever")
		}
	}
}
