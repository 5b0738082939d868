package main

import (
	"testing"
	"time"
)

// The store serves no more than it may, and all is served in the end.
func TestSim(t *testing.T) {
	s := newSim()
	done := starts(s, 300, time.Second)
	s.run()
	served := s.store.requests - s.store.refused
	if served != 300*32 || len(done.all) != 300 {
		t.Fatalf("%d served, %d done", served, len(done.all))
	}
	if most := (s.now.Seconds() + 1) * readsPerSecond; float64(served) > most || s.store.refused == 0 {
		t.Errorf("%d served in %v, %d refused", served, s.now, s.store.refused)
	}
	alone := newSim()
	one := pushes(alone, 1, time.Second)
	alone.run()
	if d := one.all[0]; alone.store.requests != 4 || d < 3*latency/3 || d > 10*latency {
		t.Errorf("one push: %d requests, %v", alone.store.requests, d)
	}
}
