package engine

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/loops"
)

const (
	// shareTurn is the processor time after which a share rests, and shareRest its longest rest.
	shareTurn = 2 * time.Millisecond
	shareRest = 100 * time.Millisecond
	// shareCalls is the number of calls of yield for each look at the clock.
	shareCalls = 32
)

// A share keeps a gc that began by itself to a tenth of the processors: it rests in between.
type share struct {
	processors int
	spent      func() time.Duration // the processor time of the gc
	rest       func(time.Duration)

	calls int
	paid  time.Duration // the processor time after which it has rested
}

// newShare returns the share of the calling goroutine, which must stay on its thread.
func newShare(g *loops.Group) *share {
	return &share{processors: runtime.NumCPU(), rest: g.Pause, spent: func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // Linux has it
		return time.Duration(t.Nano())
	}}
}

// yield is called after each piece of the work.
func (s *share) yield() {
	if s.calls++; s.calls%shareCalls != 0 {
		return
	}
	worked := s.spent() - s.paid
	if worked < shareTurn {
		return
	}

	// Go's garbage collector takes up to half as much again, in other threads.
	pause := worked*3/2*10/time.Duration(s.processors) - worked
	if pause <= 0 {
		s.paid += worked
		return
	}

	part := min(pause, shareRest) // a caller that waits for the gc does not wait long
	s.rest(part)
	s.paid += time.Duration(float64(worked) * float64(part) / float64(pause))
}
