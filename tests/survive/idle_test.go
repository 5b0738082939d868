package survive_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestIdleSoon: a mount that nobody uses sleeps two seconds after it was made.
func TestIdleSoon(t *testing.T) {
	m := newMount(t)
	keeper, daemon := harness.ParentPID(m.Pid()), m.Pid()
	time.Sleep(2 * time.Second)

	const window, most = 5 * time.Second, 10
	last := switches(t, keeper) + switches(t, daemon)
	time.Sleep(window)
	if woke := switches(t, keeper) + switches(t, daemon) - last; woke > most {
		t.Errorf("keeper and daemon woke up %d times in %v", woke, window)
	}
}

// TestIdle: neither the keeper nor the daemon wakes up while nobody uses the mount, also after a crash, and
// while a program waits for events, as a page does that is open.
func TestIdle(t *testing.T) {
	m := newMount(t)
	must.OK(t, os.WriteFile(m.Path("f"), nil, 0o644))
	m.Crash()
	_, _ = os.Stat(m.Path("none"))

	follow := exec.Command(harness.Binary(t), "-C", m.Dir, "log", "-f")
	events, err := follow.StdoutPipe()
	must.OK(t, err)
	must.OK(t, follow.Start())
	defer func() { _ = follow.Process.Kill(); _ = follow.Wait() }()
	must.OK(t, os.Mkdir(m.Path("seen"), 0o755))
	_, err = events.Read(make([]byte, 1))
	must.OK(t, err)
	keeper, daemon := harness.ParentPID(m.Pid()), m.Pid()

	const window, most = 2 * time.Second, 4
	for name, pid := range map[string]int{"keeper": keeper, "daemon": daemon} {
		last := switches(t, pid)
		harness.Eventually(t, "the "+name+" sleeps, once the takeover is over and what was written is stored", func() bool {
			time.Sleep(window)
			now := switches(t, pid)
			slept := now-last <= most
			last = now
			return slept
		})
	}
}

// switches counts how often threads of a process were switched to.
func switches(t *testing.T, pid int) (all int) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	must.OK(t, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "voluntary_ctxt_switches:") {
				n := 0
				_, _ = fmt.Sscan(strings.TrimPrefix(line, "voluntary_ctxt_switches:"), &n)
				all += n
			}
		}
	}
	return all
}
