package engine

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/loops"
)

const (
	// shareTurnTime is the processor time after which the gc rests, and maxShareRest the longest rest.
	shareTurnTime = 2 * time.Millisecond
	maxShareRest  = 100 * time.Millisecond
	// callsPerClockReading is the number of calls of yield between two readings of the clock.
	callsPerClockReading = 32
)

// A processorShare makes a gc of Collector.Loop rest, so that it uses a tenth of the machine's processors.
type processorShare struct {
	processors    int
	processorTime func() time.Duration // the processor time of the gc
	rest          func(time.Duration)

	callCount int
	restedFor time.Duration // the part of the processor time for which the gc has rested already
}

// newProcessorShare returns a processorShare that measures the thread of the caller. The caller has called
// runtime.LockOSThread.
func newProcessorShare(g *loops.Group) *processorShare {
	return &processorShare{processors: runtime.NumCPU(), rest: g.Pause, processorTime: func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // cannot fail on Linux
		return time.Duration(t.Nano())
	}}
}

// yield is called after each piece of the gc's work, see cas.Collection.Yield.
func (s *processorShare) yield() {
	if s.callCount++; s.callCount%callsPerClockReading != 0 {
		return
	}
	worked := s.processorTime() - s.restedFor
	if worked < shareTurnTime {
		return
	}

	// Go's garbage collector uses up to half of this time in addition, in other threads.
	pause := worked*3/2*10/time.Duration(s.processors) - worked
	if pause <= 0 {
		s.restedFor += worked
		return
	}

	part := min(pause, maxShareRest) // short, because a caller may wait for the gc
	s.rest(part)
	s.restedFor += time.Duration(float64(worked) * float64(part) / float64(pause))
}
