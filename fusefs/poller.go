package fusefs

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// pollTime is how long a reader polls for a request before it sleeps.
	pollTime = 50 * time.Microsecond
	// maxPollCall is a limit for the duration of one call of poll(2). If the call takes longer, another thread has
	// used the processor during the call.
	maxPollCall = 20 * time.Microsecond
	// pauseFactor limits polls to a twentieth of a reader's time: after polling for a time t without a
	// request, the reader does not poll for pauseFactor*t.
	pauseFactor = 20
)

// A poller polls for the next request for a moment before its reader sleeps. Without the polls, the reader's
// processor would be halted between any two requests of a program that makes one request after the other. On
// a virtual machine a halted processor takes longer to wake than most requests take to answer.
type poller struct {
	pausedTill time.Time
	fds        [1]unix.PollFd
}

var severalCPUs = runtime.NumCPU() > 1

// requestWaits reports whether a request can be read. The system call does not sleep, so it is made without
// informing Go's scheduler (RawSyscall6).
func (p *poller) requestWaits(fd int) bool {
	var zero unix.Timespec
	p.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.fds)), 1, uintptr(unsafe.Pointer(&zero)), 0, 0, 0)
	return n != 0 || errno != 0
}

// await returns when a request can be read, or when the reader should sleep in read(2). The caller passes the
// present time as began. foundAtOnce reports whether the first poll found a request.
func (p *poller) await(fd int, began time.Time) (foundAtOnce bool) {
	if !severalCPUs || began.Before(p.pausedTill) {
		return false
	}

	for last := began; ; {
		waiting := p.requestWaits(fd)
		now := time.Now()
		if polled := now.Sub(last); polled > maxPollCall {
			// Other threads need the processor, so the reader stops polling and sleeps. When a request arrives,
			// a sleeping thread gets the processor at once. A thread that has used up its share of the time
			// would have to wait.
			p.pausedTill = now.Add(pauseFactor * polled)
			return false
		}
		if waiting {
			return last.Equal(began)
		}

		if polled := now.Sub(began); polled > pollTime {
			p.pausedTill = now.Add(pauseFactor * polled)
			return false
		}

		last = now
	}
}
