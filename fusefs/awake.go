package fusefs

import (
	"fmt"
	"os"
	"time"
)

const (
	// awakeFrom is how many requests within stuckTime follow each other.
	awakeFrom = 2
	// awakeTime is how long the processors stay awake after the last such requests.
	awakeTime = 100 * time.Millisecond
)

// awake keeps processors from being halted while requests follow each other, by asking
// for no latency (Documentation/admin-guide/pm/cpuidle.rst, "Power Management Quality of
// Service"). A thread that waits for an answer, or a request, is then woken in a fraction of the
// time. Meanwhile idle processors take as much power as busy ones, all of them, so it is
// asked for by an option. The zero value never does.
type awake struct {
	on   bool
	held *os.File // open while they are kept awake
}

// latencyFile is where latencies are asked for, in µs. Only root may.
const latencyFile = "/dev/cpu_dma_latency"

func (a *awake) hold() error {
	if !a.on || a.held != nil {
		return nil
	}
	f, err := os.OpenFile(latencyFile, os.O_WRONLY, 0)
	if err == nil {
		a.held = f
		_, err = f.Write(make([]byte, 4))
	}
	if err != nil {
		a.release()
		return fmt.Errorf("the option lowlatency is for root: %w", err)
	}
	return nil
}

func (a *awake) release() {
	if a.held != nil {
		_ = a.held.Close()
		a.held = nil
	}
}
