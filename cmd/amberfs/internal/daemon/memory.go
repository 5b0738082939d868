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

// maxShare is what all diffs and imports together may take.
const maxShare = 256 << 20

// memoryShare is the memory for all diffs and imports, less in a small control group.
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

const (
	// memoryGoal is the memory limit, in bytes, unless what is in use needs more.
	memoryGoal = 150 << 20
	// limitStep is what limits beyond that are multiples of.
	limitStep = 4 << 20
	// someGarbage is the least room for garbage beside what is in use.
	someGarbage = 32 << 20
)

// boundGarbage keeps garbage from doubling the memory of a daemon that has a large tree.
// From memoryGoal on the collector works harder. What is in use may be more than that;
// then the limit leaves room beside it, or the collector would run all the time. limit is
// the present one.
func boundGarbage(limit int64) {
	live := sample("/gc/heap/live:bytes")
	// What the limit counts and no collection can free, such as stacks.
	rest := sample("/memory/classes/total:bytes") - sample("/memory/classes/heap/released:bytes") -
		sample("/memory/classes/heap/objects:bytes") - sample("/memory/classes/heap/free:bytes")
	room := min(live/2, max(live/5, someGarbage))
	next := max(memoryGoal, int64(live+rest+room)&^(limitStep-1))
	if next != limit { // setting it stops the world
		debug.SetMemoryLimit(next)
	}
	runtime.AddCleanup(new([16]byte), boundGarbage, next) // after the next collection
}

func sample(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
