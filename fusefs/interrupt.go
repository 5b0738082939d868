package fusefs

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// killedTick is how often it is looked whether a client that got a signal was
// killed.
const killedTick = 50 * time.Millisecond

// interruptible returns a context that ends when the client of a request is killed.
// It cannot die before the answer, which may take long.
//
// The kernel cancels a request at the first signal that the client gets, whatever
// the client does about it, and does not tell of a later one. Nobody expects of
// open(2) and stat(2) that they end then.
func interruptible(cancel <-chan struct{}, h *fuse.InHeader) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		select {
		case <-cancel:
		case <-ctx.Done():
			return
		}
		for !isKilled(h.Pid) {
			select {
			case <-time.After(killedTick):
			case <-ctx.Done():
				return
			}
		}
		stop()
	}()
	return ctx, stop
}

// isKilled reports whether a thread is to die as soon as it can: then a SIGKILL is
// pending for it, whatever the signal was.
func isKilled(tid uint32) bool {
	if tid == 0 {
		return false // of another namespace
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	return err == nil && killPending(string(b))
}

// killPending reads the format of /proc/PID/status (proc_pid_status(5)).
func killPending(status string) bool {
	for line := range strings.Lines(status) {
		name, mask, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64); err == nil && bits&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}
