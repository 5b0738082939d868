package snapshot

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
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

// TestNobodyWaitsForADueGC: automatic captures go on while a gc has to wait, and
// one that is due does not wait for an import, with all checkpoints behind it.
func TestNobodyWaitsForADueGC(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := s.Main()
	p := w.Policy()
	p.IntervalSeconds = 1
	if err := w.SetPolicy(p, live.Caller{}); err != nil {
		t.Fatal(err)
	}

	done := sync.OnceFunc(s.Importing())
	defer done()
	s.stored.Store(1 << 40)
	time.Sleep(2500 * time.Millisecond)
	if !s.ckpt.mu.TryLock() {
		t.Fatal("a gc waits for an import, and checkpoints for the gc")
	}
	done()
	time.Sleep(1500 * time.Millisecond) // now the gc waits for us
	before := len(w.List())
	if _, err := s.Forest().Create(w.Root(), "file", live.Create{Mode: unix.S_IFREG | 0o644}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3500 * time.Millisecond)
	if len(w.List()) == before {
		t.Error("no automatic capture while a gc waits")
	}
	s.ckpt.mu.Unlock()
	if _, err := s.GC(context.Background(), nil); err != nil {
		t.Error(err)
	}
}
