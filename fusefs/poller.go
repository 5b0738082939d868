package fusefs

import (
	"errors"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// pollTime is how long a reader asks for a request before it sleeps.
	pollTime = 50 * time.Microsecond
	// preempted is how long one poll(2) takes if another thread used the processor meanwhile.
	preempted = 20 * time.Microsecond
	// After a time t without a request, a reader does not poll for pauseFactor*t. So it spends
	// at most a twentieth of its time on polls.
	pauseFactor = 20
)

// A poller asks for the next request for a moment before its reader sleeps. While a
// program makes one request after the other, the reader's processor would be halted
// between any two of them, and on a virtual machine a halted one takes longer to wake
// than most requests to answer.
type poller struct {
	pausedTill time.Time
	fds        [1]unix.PollFd
}

var severalCPUs = runtime.NumCPU() > 1

// waiting reports whether there is a request.
func (p *poller) waiting(fd int) bool {
	var zero unix.Timespec
	p.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.fds)), 1, uintptr(unsafe.Pointer(&zero)), 0, 0, 0)
	return n != 0 || errno != 0
}

// await returns when there is a request, or when it is better to sleep until
// there is. It reports whether one was there already. Its system calls are raw,
// as they do not sleep.
func (p *poller) await(fd int, began time.Time) (already bool) {
	if !severalCPUs || began.Before(p.pausedTill) {
		return false
	}

	for last := began; ; {
		waiting := p.waiting(fd)
		now := time.Now()
		if turn := now.Sub(last); turn > preempted {
			// Other threads want the processor. A thread that sleeps gets it when there
			// is a request; one that has used up its share does not.
			p.pausedTill = now.Add(pauseFactor * turn)
			return false
		}
		if waiting {
			return last.Equal(began)
		}

		if asked := now.Sub(began); asked > pollTime {
			p.pausedTill = now.Add(pauseFactor * asked)
			return false
		}

		last = now
	}
}

// read waits for a request.
func read(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
	}
}
