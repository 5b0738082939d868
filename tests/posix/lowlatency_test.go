package posix_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

// TestLowLatency: the processors are kept awake while requests follow each other, and no
// longer; only root may ask for that.
func TestLowLatency(t *testing.T) {
	if os.Getuid() != 0 {
		m := harness.New(t)
		m.Stop()
		if err := m.TryStart("-o", "lowlatency"); err == nil {
			m.Stop()
			t.Error("an ordinary user has it")
		}
		if !strings.Contains(m.Log(), "the option lowlatency is for root") {
			t.Errorf("the reason is not told:\n%s", m.Log())
		}
		m.Start()
		return
	}
	if _, err := os.Stat("/dev/cpu_dma_latency"); err != nil {
		t.Skip(err)
	}
	m := harness.New(t, "-o", "lowlatency")
	held := func() bool {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", m.Pid()))
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); strings.HasSuffix(to, "cpu_dma_latency") {
				return true
			}
		}
		return false
	}
	harness.Eventually(t, "it is not asked for without requests", func() bool { return !held() })
	n := 0
	harness.Eventually(t, "it is asked for", func() bool {
		for range 200 {
			n++
			if err := os.WriteFile(m.Path("f"), fmt.Append(nil, n), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return held()
	})
	harness.Eventually(t, "it ends", func() bool { return !held() })
}
