package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// memoryGoal is how much memory the daemon should keep below, as long as
	// what is in use fits well.
	memoryGoal = 150 << 20
	// memoryLook is the time between two looks at what is in use.
	memoryLook = 5 * time.Second
)

// boundMemory keeps garbage from doubling the memory of a daemon that holds a
// large tree: the collector works harder from memoryGoal on. What is in use may
// be more than that; half of it again is left free then, or the collector would
// do nothing but run.
func boundMemory(ctx context.Context) {
	tick := time.NewTicker(memoryLook)
	defer tick.Stop()
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	old := int64(0)
	for {
		metrics.Read(s)
		limit := max(memoryGoal, int64(s[0].Value.Uint64())/2*3)
		if limit != old {
			debug.SetMemoryLimit(limit)
			old = limit
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
