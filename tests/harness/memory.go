package harness

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/await"
)

// LimitMemory starts the next daemon of a mount in a control group that limits the memory of the daemon and its
// children. kills returns how many processes of the group the kernel has killed for want of memory, and peak returns
// the most memory that the group used, in bytes. If no group can be created, LimitMemory skips the test or, in
// `make test` as root, fails it.
func LimitMemory(t testing.TB, m *Mount, bytes int64) (kills, peak func() int64) {
	t.Helper()
	group, limitFile, eventsFile, peakFile := "/sys/fs/cgroup", "memory.max", "memory.events", "memory.peak"
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil { // version 1
		group, limitFile, eventsFile, peakFile = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control", "memory.max_usage_in_bytes"
	}
	group = filepath.Join(group, filepath.Base(filepath.Dir(m.Dir)))
	err := os.Mkdir(group, 0o755)
	if err == nil {
		t.Cleanup(func() {
			m.Stop()
			await.True(t, group+" is removed", func() bool { return unix.Rmdir(group) == nil })
		})
		err = os.WriteFile(filepath.Join(group, limitFile), []byte(strconv.FormatInt(bytes, 10)), 0o644)
	}
	if err != nil {
		if os.Getenv("AMBERFS_TEST_COMPLETE") != "" && os.Geteuid() == 0 {
			t.Fatalf("no control group for memory: %v", err)
		}
		t.Skipf("no control group for memory: %v", err)
	}
	m.memoryGroup = group
	read := func(file, prefix string) int64 {
		b, err := os.ReadFile(filepath.Join(group, file))
		if err != nil {
			t.Error(err)
			return -1
		}
		_, rest, _ := strings.Cut(string(b), prefix)
		word, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Errorf("%s has %q", file, b)
		}
		return n
	}
	return func() int64 { return read(eventsFile, "oom_kill ") }, func() int64 { return read(peakFile, "") }
}
