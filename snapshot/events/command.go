package events

import (
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/process"
)

const (
	commandAge = 20 * time.Millisecond // then exec may have changed it
	commandMax = 4096
)

// commands knows the names of processes. A request carries the id of a thread;
// its process is asked for while the thread still waits for the answer.
type commands struct {
	mu   sync.Mutex
	seen map[uint32]known
}

type known struct {
	pid  uint32 // of the process, for a thread's id
	name string
	at   time.Time
}

func (c *commands) of(tid uint32, now time.Time) known {
	if tid == 0 {
		return known{}
	}
	c.mu.Lock()
	p, ok := c.seen[tid]
	c.mu.Unlock()
	if ok && now.Sub(p.at) < commandAge {
		return p
	}
	fresh := known{pid: uint32(process.Of(int(tid)))}
	fresh.name = process.Command(int(fresh.pid))
	if fresh.name == "" && ok { // it is gone
		fresh.pid, fresh.name = p.pid, p.name
	}
	fresh.at = now
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) >= commandMax {
		c.seen = map[uint32]known{}
	}
	c.seen[tid] = fresh
	return fresh
}
