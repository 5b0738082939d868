package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// reapTime is how long descendants get to end by themselves.
const reapTime = 3 * time.Second

// reapRest ends all children but spare: with SIGTERM those of our daemon, which
// need a moment to write, and what the program left with SIGKILL. It returns
// when there are none, adopted ones included.
func reapRest(spare int) {
	deadline := time.Now().Add(reapTime)
	for {
		left := 0
		for _, pid := range children() {
			if pid == spare {
				continue
			}
			var ws unix.WaitStatus
			if got, err := unix.Wait4(pid, &ws, unix.WNOHANG, nil); err == nil && got == pid {
				continue
			}
			left++
			if time.Now().After(deadline) || !isOurs(pid) {
				_ = unix.Kill(pid, unix.SIGKILL)
			} else {
				_ = unix.Kill(pid, unix.SIGTERM)
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// children lists this process's children.
func children() []int {
	var out []int
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, t := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%s/children", t.Name()))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// isOurs says whether a process is this program: the daemon, or inner.
func isOurs(pid int) bool {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return false
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && exe == self
}
