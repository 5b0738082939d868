package daemon

import (
	"math"
	"os"
	"path/filepath"
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
