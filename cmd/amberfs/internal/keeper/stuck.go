package keeper

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/process"
)

// A daemon that is killed while it writes a notice may not come to its end: the kernel waits
// for the lock of a directory, which a program holds that waits for an answer. The next
// daemon gives it. Such a daemon writes nothing any more: all that is left of it are threads
// in write(2) to the device.

// The keeper checks every slowTick whether the daemon is dying, and every fastTick once its first
// thread has ended. That thread may be writing a notice, too.
const (
	slowTick = 500 * time.Millisecond
	fastTick = 5 * time.Millisecond
)

// stuck returns a channel that is closed when a process is dying and only its notices are
// left.
func stuck(pid int) <-chan struct{} {
	only := make(chan struct{})
	go func() {
		first, err := unix.PidfdOpen(pid, unix.PIDFD_THREAD)
		if err == nil {
			defer unix.Close(first)
		}
		for ; unix.Kill(pid, 0) == nil; time.Sleep(fastTick) {
			if onlyNotices(pid) {
				close(only)
				return
			}
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(first), Events: unix.POLLIN}}, int(slowTick.Milliseconds()))
		}
	}()
	return only
}

// onlyNotices reports whether a killed process has threads left, all of which write to the device.
func onlyNotices(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/task/", pid)
	tasks, err := os.ReadDir(dir)
	writing := 0
	for _, t := range tasks {
		stat, serr := os.ReadFile(dir + t.Name() + "/stat")
		if serr != nil {
			continue // it has ended
		}
		_, state, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
			continue
		}
		if id, _ := strconv.Atoi(t.Name()); !process.Killed(id) {
			return false
		}
		call, _ := os.ReadFile(dir + t.Name() + "/syscall") // number and arguments
		f := strings.Fields(string(call))
		if !strings.HasPrefix(state, "D") || len(f) < 2 || f[0] != strconv.Itoa(unix.SYS_WRITE) {
			return false
		}
		n, _ := strconv.ParseUint(f[1], 0, 32)
		if to, _ := os.Readlink(fmt.Sprintf("%s%s/fd/%d", dir, t.Name(), n)); to != "/dev/fuse" {
			return false
		}
		writing++
	}
	return err == nil && writing > 0
}
