package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// idle is how often the threads of a daemon that has nothing to do leave a
// processor in 10 s, a minute after the last change.
func idle(w *work) (n float64, err error) {
	h, err := newAmberHistory(w.b, filepath.Join(w.b.base, "idle"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	cmd := exec.Command(w.b.bin, "status", "--json")
	cmd.Dir = h.root()
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	var status struct{ Pid int }
	if err := json.Unmarshal(out, &status); err != nil {
		return 0, err
	}
	if err := errors.Join(populate(w.b, h.root(), 1000), h.run("snapshot", "v")); err != nil {
		return 0, err
	}
	time.Sleep(time.Minute)
	before, err := switches(status.Pid)
	if err != nil {
		return 0, err
	}
	time.Sleep(10 * time.Second)
	after, err := switches(status.Pid)
	return after - before, err
}

// switches is how often the threads of a process have left a processor.
func switches(pid int) (sum float64, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(status)) {
			if _, n, ok := strings.Cut(line, "voluntary_ctxt_switches:"); ok {
				var k float64
				if _, err := fmt.Sscan(n, &k); err != nil {
					return 0, err
				}
				sum += k
			}
		}
	}
	return sum, nil
}
