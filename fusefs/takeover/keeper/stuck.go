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

// A daemon that is killed while it writes a notice may be unable to end: its write(2) waits in the
// kernel for the lock of a directory. A program holds this lock and waits for an answer, which only the
// next daemon can give. Such a dying daemon can do no harm to the next one, because its only threads are
// in write(2) to the device.

// dyingCheckInterval is the time between two checks of a daemon that is dying.
const dyingCheckInterval = 5 * time.Millisecond

// stuckChannel returns a channel that is closed when a process is dying and all its remaining threads write
// notices. thread is a thread of the process that writes no notices. stuckChannel waits in the background
// until this thread ends, before it checks the other threads.
func stuckChannel(pid, thread int) <-chan struct{} {
	stuck := make(chan struct{})
	go func() {
		pidfd, err := unix.PidfdOpen(thread, unix.PIDFD_THREAD)
		if err == nil {
			for err = unix.EINTR; errors.Is(err, unix.EINTR); {
				_, err = unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
			}
			unix.Close(pidfd)
		}

		for ; unix.Kill(pid, 0) == nil; time.Sleep(dyingCheckInterval) {
			if writesOnlyNotices(pid) {
				close(stuck)
				return
			}

			if err != nil && !errors.Is(err, unix.ESRCH) { // the end of the thread cannot be waited for, so check rarely
				time.Sleep(time.Second)
			}
		}
	}()

	return stuck
}

// writesOnlyNotices reports whether a process was killed, some of its threads have not ended, and all of these
// threads are in write(2) to the device.
func writesOnlyNotices(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/task/", pid)
	tasks, err := os.ReadDir(dir)
	writing := 0

	for _, t := range tasks {
		stat, serr := os.ReadFile(dir + t.Name() + "/stat")
		if serr != nil {
			continue // the thread has ended
		}

		_, state, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
			continue
		}
		if id, _ := strconv.Atoi(t.Name()); !process.IsKilled(id) {
			return false
		}

		call, _ := os.ReadFile(dir + t.Name() + "/syscall") // the number of the system call, and its arguments
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
