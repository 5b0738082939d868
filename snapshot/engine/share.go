package engine

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/loops"
)

const (
	// shareTurn is the processor time after which the gc rests, and shareRest the longest rest.
	shareTurn = 2 * time.Millisecond
	shareRest = 100 * time.Millisecond
	// shareCalls is the number of calls of yield between two readings of the clock.
	shareCalls = 32
)

// A share makes a gc of Collector.Loop rest, so that it uses a tenth of the machine's processors.
type share struct {
	processors int
	spent      func() time.Duration // the processor time of the gc
	rest       func(time.Duration)

	calls     int
	restedFor time.Duration // the part of the processor time for which the gc has rested already
}

// newShare returns a share that measures the thread of the caller. The caller has called
// runtime.LockOSThread.
func newShare(g *loops.Group) *share {
	return &share{processors: runtime.NumCPU(), rest: g.Pause, spent: func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // Linux has it
		return time.Duration(t.Nano())
	}}
}

// yield is called after each piece of the gc's work, see cas.Collection.Yield.
func (s *share) yield() {
	if s.calls++; s.calls%shareCalls != 0 {
		return
	}
	worked := s.spent() - s.restedFor
	if worked < shareTurn {
		return
	}

	// Go's garbage collector uses up to half of this time in addition, in other threads.
	pause := worked*3/2*10/time.Duration(s.processors) - worked
	if pause <= 0 {
		s.restedFor += worked
		return
	}

	part := min(pause, shareRest) // a caller that waits for the gc does not wait long
	s.rest(part)
	s.restedFor += time.Duration(float64(worked) * float64(part) / float64(pause))
}
