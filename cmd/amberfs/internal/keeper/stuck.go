package keeper

import (
	"errors"
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

// dyingTick is the time between two looks at a daemon that is dying.
const dyingTick = 5 * time.Millisecond

// stuck returns a channel that is closed when a process is dying and only its notices are
// left. A thread of it that writes none has ended then, and before nothing is looked at.
func stuck(pid, thread int) <-chan struct{} {
	only := make(chan struct{})
	go func() {
		ended, err := unix.PidfdOpen(thread, unix.PIDFD_THREAD)
		if err == nil {
			for err = unix.EINTR; errors.Is(err, unix.EINTR); {
				_, err = unix.Poll([]unix.PollFd{{Fd: int32(ended), Events: unix.POLLIN}}, -1)
			}
			unix.Close(ended)
		}

		for ; unix.Kill(pid, 0) == nil; time.Sleep(dyingTick) {
			if onlyNotices(pid) {
				close(only)
				return
			}

			if err != nil && !errors.Is(err, unix.ESRCH) { // it is not known when the thread ends
				time.Sleep(time.Second)
			}
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
