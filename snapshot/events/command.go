package events

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	commandAge = 20 * time.Millisecond // then exec may have changed it
	commandMax = 4096
)

// commands knows the names of processes. A request carries the id of a thread;
// its process is asked for while the thread still waits for the answer.
type commands struct {
	mu   sync.Mutex
	seen map[uint32]process
}

type process struct {
	pid  uint32 // of the process, for a thread's id
	name string
	at   time.Time
}

func (c *commands) of(tid uint32, now time.Time) process {
	if tid == 0 {
		return process{}
	}
	c.mu.Lock()
	p, ok := c.seen[tid]
	c.mu.Unlock()
	if ok && now.Sub(p.at) < commandAge {
		return p
	}
	fresh := lookupProcess(tid)
	if fresh.pid == 0 {
		fresh.pid = tid // it is gone, or not ours to see
		if ok {
			fresh.pid, fresh.name = p.pid, p.name
		}
	}
	fresh.at = now
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) >= commandMax {
		c.seen = map[uint32]process{}
	}
	c.seen[tid] = fresh
	return fresh
}

// lookupProcess asks proc(5). The zero process means that there is none.
func lookupProcess(tid uint32) process {
	name, pid := readStatus(tid)
	if pid != 0 && pid != tid {
		// Threads have names of their own; people know the program's.
		name, _ = readStatus(pid)
	}
	return process{pid: pid, name: name}
}

func readStatus(pid uint32) (name string, tgid uint32) {
	f, err := os.Open("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/status")
	if err != nil {
		return "", 0
	}
	defer f.Close()
	var buf [256]byte // the fields wanted are among the first four
	n, err := f.Read(buf[:])
	if err != nil {
		return "", 0
	}
	for line := range bytes.Lines(buf[:n]) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(key) {
		case "Name":
			name = string(value)
		case "Tgid":
			v, err := strconv.ParseUint(string(value), 10, 32)
			if err == nil {
				tgid = uint32(v)
			}
		}
	}
	return name, tgid
}
