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

// LimitMemory has the next daemon of a mount, and its children, begin in a control group with
// so many bytes of memory. kills is how often the kernel has killed a process there for want
// of memory, peak the most memory that they had. Where no group can be made, the test is
// skipped or, in `make test` as root, fails.
func LimitMemory(t testing.TB, m *Mount, bytes int64) (kills, peak func() int64) {
	t.Helper()
	group, limit, events, most := "/sys/fs/cgroup", "memory.max", "memory.events", "memory.peak"
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil { // version 1
		group, limit, events, most = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control", "memory.max_usage_in_bytes"
	}
	group = filepath.Join(group, filepath.Base(filepath.Dir(m.Dir)))
	err := os.Mkdir(group, 0o755)
	if err == nil {
		t.Cleanup(func() {
			m.Stop()
			await.True(t, group+" is removed", func() bool { return unix.Rmdir(group) == nil })
		})
		err = os.WriteFile(filepath.Join(group, limit), []byte(strconv.FormatInt(bytes, 10)), 0o644)
	}
	if err != nil {
		if os.Getenv("AMBERFS_TEST_COMPLETE") != "" && os.Geteuid() == 0 {
			t.Fatalf("no control group for memory: %v", err)
		}
		t.Skipf("no control group for memory: %v", err)
	}
	m.group = group
	read := func(file, after string) int64 {
		b, err := os.ReadFile(filepath.Join(group, file))
		if err != nil {
			t.Error(err)
			return -1
		}
		_, rest, _ := strings.Cut(string(b), after)
		word, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Errorf("%s has %q", file, b)
		}
		return n
	}
	return func() int64 { return read(events, "oom_kill ") }, func() int64 { return read(most, "") }
}
