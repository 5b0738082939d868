package model_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

const (
	processes = 8
	registers = 4
)

// A call is one read or write of a file's first bytes, between two instants of
// the machine's monotonic clock.
type call struct {
	File       int
	Value      uint64 // 0: as it was in the beginning
	Write      bool
	Start, End int64
}

func clock() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail
	return ts.Nano()
}

// asProcess is the main function of the processes of the test below. It
// is false in the test itself.
func asProcess() bool {
	dir := os.Getenv("AMBERFS_REGISTERS")
	if dir == "" {
		return false
	}
	id, err := strconv.Atoi(os.Getenv("AMBERFS_PROCESS"))
	if err == nil {
		err = useRegisters(dir, id)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// useRegisters reads and writes the files at random, and prints what it did.
func useRegisters(dir string, id int) error {
	rnd := rand.New(rand.NewPCG(uint64(id), 3))
	var files [registers]*os.File
	for i := range files {
		f, err := os.OpenFile(fmt.Sprintf("%s/r%d", dir, i), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		files[i] = f
	}
	var done []call
	b := make([]byte, 8)
	for n, end := uint64(1), time.Now().Add(time.Second); time.Now().Before(end) && n < 20_000; n++ {
		c := call{File: rnd.IntN(registers), Write: rnd.IntN(3) == 0}
		var err error
		if c.Write {
			c.Value = uint64(id+1)<<32 | n
			binary.LittleEndian.PutUint64(b, c.Value)
			c.Start = clock()
			_, err = files[c.File].WriteAt(b, 0)
			c.End = clock()
		} else {
			c.Start = clock()
			_, err = files[c.File].ReadAt(b, 0)
			c.End = clock()
			c.Value = binary.LittleEndian.Uint64(b)
		}
		if err != nil {
			return err
		}
		done = append(done, c)
	}
	return json.NewEncoder(os.Stdout).Encode(done)
}

// TestEightProcesses: whatever processes do to a file at once, there is an order
// of their calls, each within its own time, in which every read sees the write
// before it. Captures go on meanwhile.
func TestEightProcesses(t *testing.T) {
	m := harness.New(t)
	for i := range registers {
		must.OK(t, os.WriteFile(m.Path(fmt.Sprint("r", i)), make([]byte, 8), 0o644))
	}
	outs := make([][]byte, processes)
	errs := make(chan error, processes)
	for id := range processes {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "AMBERFS_REGISTERS="+m.Dir, fmt.Sprint("AMBERFS_PROCESS=", id))
		c.Stderr = os.Stderr
		go func() {
			out, err := c.Output()
			outs[id] = out
			errs <- err
		}()
	}
	for n, running := 0, processes; running > 0; n++ {
		select {
		case err := <-errs:
			must.OK(t, err)
			running--
		case <-time.After(20 * time.Millisecond):
			must.OK(t, os.Mkdir(m.Path(".snapshots", fmt.Sprint("s", n)), 0o755))
		}
	}
	var all [registers][]call
	total := 0
	for _, out := range outs {
		var done []call
		must.OK(t, json.Unmarshal(out, &done))
		for _, c := range done {
			all[c.File] = append(all[c.File], c)
		}
		total += len(done)
	}
	t.Logf("%d calls", total)
	for i, calls := range all {
		if err := linear(calls); err != nil {
			t.Errorf("file r%d: %v", i, err)
		}
	}
}

// A zone is the time that a value must have been the file's: from the first end
// of a call with it to the last beginning of one. If that is the wrong way round
// (a backward zone), there is an instant between at which all of them can be.
type zone struct{ from, to int64 }

// linear is an error unless the calls on one register, whose values are all
// different, are linearizable: no two forward zones overlap, and no backward
// zone lies within a forward one (Gibbons and Korach, Testing Shared Memories,
// 1997).
func linear(calls []call) error {
	zones := map[uint64]*zone{0: {from: -1, to: -1}}
	written := map[uint64]call{0: {}}
	for _, c := range calls {
		if c.Write {
			written[c.Value] = c
		}
		z, ok := zones[c.Value]
		if !ok {
			zones[c.Value] = &zone{c.End, c.Start}
			continue
		}
		z.from, z.to = min(z.from, c.End), max(z.to, c.Start)
	}
	var forward, backward []zone
	for v, z := range zones {
		w, ok := written[v]
		if !ok {
			return fmt.Errorf("%#x was read and never written", v)
		}
		if z.from < w.Start && v != 0 {
			return fmt.Errorf("%#x was read before it was written", v)
		}
		if z.from < z.to {
			forward = append(forward, *z)
		} else {
			backward = append(backward, zone{z.to, z.from})
		}
	}
	slices.SortFunc(forward, func(a, b zone) int { return int(a.from - b.from) })
	for i := 1; i < len(forward); i++ {
		if forward[i].from < forward[i-1].to {
			return fmt.Errorf("two values at once: from %d to %d and from %d to %d", forward[i-1].from, forward[i-1].to, forward[i].from, forward[i].to)
		}
	}
	for _, b := range backward {
		i, _ := slices.BinarySearchFunc(forward, b.from, func(f zone, at int64) int {
			if f.from <= at {
				return -1
			}
			return 1
		})
		if i > 0 && b.to < forward[i-1].to && b.from > forward[i-1].from {
			return fmt.Errorf("a value from %d to %d while another was there", b.from, b.to)
		}
	}
	return nil
}

func TestLinear(t *testing.T) {
	w := func(v uint64, a, b int64) call { return call{Value: v, Write: true, Start: a, End: b} }
	r := func(v uint64, a, b int64) call { return call{Value: v, Start: a, End: b} }
	for i, good := range [][]call{
		{w(1, 0, 10), r(1, 11, 12)},
		{w(1, 0, 10), r(0, 1, 2), r(1, 3, 4)},
		{w(1, 0, 10), w(2, 0, 10), r(1, 11, 12), r(1, 13, 14)},
		{w(1, 0, 5), w(2, 6, 20), r(1, 7, 8), r(2, 9, 10), r(2, 21, 22)},
	} {
		if err := linear(good); err != nil {
			t.Errorf("good %d: %v", i, err)
		}
	}
	for i, bad := range [][]call{
		{w(1, 0, 10), r(0, 11, 12)},                                    // a write that is forgotten
		{w(1, 0, 5), w(2, 6, 10), r(1, 11, 12)},                        // an old value comes back
		{w(1, 0, 30), w(2, 0, 30), r(1, 1, 2), r(2, 3, 4), r(1, 5, 6)}, // there and back again
		{w(1, 10, 12), r(1, 1, 2)},                                     // from the future
		{w(1, 0, 3), r(1, 20, 21), w(2, 5, 6)},                         // a write that had no effect
		{r(7, 1, 2)},                                                   // from nowhere
	} {
		if linear(bad) == nil {
			t.Errorf("bad %d passed", i)
		}
	}
}
