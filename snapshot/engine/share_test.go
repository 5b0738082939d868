package engine

import (
	"testing"
	"time"
)

// TestShareOfAGC: a gc that began by itself takes a tenth of the processors, in small pieces of
// work and in large ones.
func TestShareOfAGC(t *testing.T) {
	for _, processors := range []int{1, 2, 8, 64} {
		for _, piece := range []time.Duration{time.Microsecond, time.Second} {
			var spent, rested time.Duration
			s := &processorShare{processors: processors, processorTime: func() time.Duration { return spent }, rest: func(d time.Duration) { rested += d }}
			for range 1_000_000 {
				if spent < 2*time.Second {
					spent += piece
				}
				s.yield()
			}
			if of := spent.Seconds() / (spent + rested).Seconds() / float64(processors); of > 0.101 || of < 0.01 {
				t.Errorf("%d processors, pieces of %v: it takes %.3f of them", processors, piece, of)
			}
		}
	}
}
