package daemon

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

const (
	// memoryGoal is how much memory the daemon should keep below, as long as
	// what is in use fits well.
	memoryGoal = 150 << 20
	// limitStep is what limits beyond that are multiples of.
	limitStep = 16 << 20
	// maxShare is what all diffs and imports together may take.
	maxShare = 256 << 20
)

// boundMemory keeps garbage from doubling the memory of a daemon that holds a
// large tree: the collector works harder from memoryGoal on. What is in use may
// be more than that; half of it again is left free then, or the collector would
// do nothing but run.
func boundMemory() { afterCollection(0) }

// afterCollection sets the limit anew after each collection. Setting it stops the
// world, so small differences do not count.
func afterCollection(old int64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	limit := max(memoryGoal, int64(s[0].Value.Uint64())/2*3&^(limitStep-1))
	if limit != old {
		debug.SetMemoryLimit(limit)
	}
	runtime.AddCleanup(new([16]byte), afterCollection, limit) // the next collection takes it
}

// memoryShare is how much memory all diffs and imports together may take, in bytes:
// less where the kernel grants this process little.
func memoryShare() int64 {
	most := int64(maxShare)
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return most
	}
	for line := range strings.Lines(string(b)) {
		// 0::/PATH, or ID:memory:/PATH of version 1 (cgroups(7))
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			most = min(most, memoryLimit(f[2], "memory.max")/4, memoryLimit("memory"+f[2], "memory.limit_in_bytes")/4)
		}
	}
	return most
}

// memoryLimit returns what a control group grants, in bytes.
func memoryLimit(group, file string) int64 {
	b, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", group, file))
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return math.MaxInt64 // "max"
	}
	return n
}
