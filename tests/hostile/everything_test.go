package hostile_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// fuzzer is one program of many in a fork, which does at random what a fork may do.
type fuzzer struct {
	rnd  *rand.Rand
	fork string
}

func (z *fuzzer) file() string { return filepath.Join(z.fork, fmt.Sprint("f", z.rnd.IntN(24))) }

// offset is mostly small, and sometimes as large as a file can be.
func (z *fuzzer) offset() int64 {
	if z.rnd.IntN(20) == 0 {
		return z.rnd.Int64N(1 << 61)
	}
	return z.rnd.Int64N(4 << 20)
}

func (z *fuzzer) open(fn func(f *os.File)) {
	if f, err := os.OpenFile(z.file(), os.O_RDWR|os.O_CREATE, 0o644); err == nil {
		defer f.Close()
		fn(f)
	}
}

// step does one thing. It may fail: a limit is reached, or another program was faster.
func (z *fuzzer) step() {
	control := func(name, text string) {
		_ = os.WriteFile(filepath.Join(z.fork, ".snapshots", name), []byte(text), 0o644)
	}
	snapshot := fmt.Sprint("s", z.rnd.IntN(8))
	switch z.rnd.IntN(20) {
	case 0, 1, 2, 3:
		z.open(func(f *os.File) {
			for at := z.offset(); z.rnd.IntN(512) > 0; at += 2 {
				if _, err := f.WriteAt([]byte{byte(at)}, at); err != nil {
					return
				}
			}
		})
	case 4, 5, 6, 7, 8:
		z.open(func(f *os.File) {
			z.open(func(g *os.File) {
				for range z.rnd.IntN(64) {
					from, to := z.offset(), z.offset()
					if n, err := unix.CopyFileRange(int(f.Fd()), &from, int(g.Fd()), &to, 1<<20, 0); n == 0 || err != nil {
						return
					}
				}
			})
		})
	case 9, 10:
		z.open(func(f *os.File) {
			mode := []uint32{0, unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_ZERO_RANGE}[z.rnd.IntN(4)]
			for at := z.offset(); z.rnd.IntN(128) > 0; at += 3 {
				if unix.Fallocate(int(f.Fd()), mode, at, 1) != nil {
					return
				}
			}
		})
	case 11:
		z.open(func(f *os.File) { _ = f.Truncate(z.offset()) })
	case 12:
		z.open(func(f *os.File) {
			_ = unix.Fsetxattr(int(f.Fd()), "user.x", bytes.Repeat([]byte("x"), z.rnd.IntN(60_000)), 0)
		})
	case 13:
		_ = os.Rename(z.file(), z.file())
	case 14:
		_ = os.Link(z.file(), z.file()+"-link")
		_ = os.Remove(z.file())
		_ = os.Remove(z.file() + "-link")
	case 15:
		_ = os.Mkdir(filepath.Join(z.fork, ".snapshots", snapshot), 0o755)
	case 16:
		_ = os.Remove(filepath.Join(z.fork, ".snapshots", snapshot))
	case 17:
		control("restore", snapshot+"\n")
	case 18:
		_ = os.Mkdir(filepath.Join(z.fork, ".forks", snapshot), 0o755)
		_ = os.Remove(filepath.Join(z.fork, ".forks", snapshot))
	case 19:
		_, _ = os.ReadFile(filepath.Join(z.fork, ".snapshots", "stat@"+snapshot))
	}
}

// TestEverythingInAFork: programs in a fork do everything that is allowed, at random. The daemon is
// not killed for want of memory, and main goes on. The long form has one export besides, for which
// everything that uses the fork's .snapshots waits.
func TestEverythingInAFork(t *testing.T) {
	const programs, mostMiB = 8, 512
	m := harness.New(t)
	fork := m.Path(".forks", "f")
	must.OK(t, os.Mkdir(fork, 0o755))
	limitMemory(t, m.Pid(), mostMiB<<20)
	pid, memory := m.Pid(), most(m.Pid())
	end := time.Now().Add(5 * time.Second)
	if harness.Long() {
		end = time.Now().Add(10 * time.Minute)
	}
	var running sync.WaitGroup
	var steps atomic.Int64
	for n := range uint64(programs) {
		running.Go(func() {
			z := &fuzzer{rand.New(rand.NewPCG(28, n)), fork}
			for time.Now().Before(end) {
				z.step()
				steps.Add(1)
			}
		})
	}
	if harness.Long() {
		running.Go(func() {
			_ = os.WriteFile(filepath.Join(fork, ".snapshots", "export"), []byte("s0\n"), 0o644) // it may be refused
		})
	}
	written := 0
	for ; time.Now().Before(end); written++ {
		if err := os.WriteFile(m.Path("main"), fmt.Appendln(nil, written), 0o644); err != nil {
			t.Fatalf("a write in main: %v", err)
		}
	}
	running.Wait()
	if got := m.Pid(); got != pid {
		t.Errorf("the daemon was replaced: it was process %d, and is %d", pid, got)
	}
	mib := memory()
	t.Logf("%d steps in the fork, %d writes in main, %d MiB", steps.Load(), written, mib)
	if mib > mostMiB {
		t.Errorf("the daemon took %d MiB", mib)
	}
	m.Amberfs("fork", "--discard", "f")
}

// limitMemory puts a process in a control group of version 1 or 2, if that can be done here.
func limitMemory(t *testing.T, pid int, bytes int64) {
	t.Helper()
	for _, of := range [][2]string{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		group, limit := of[0], of[1]
		if _, err := os.Stat(filepath.Join(group, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(group, fmt.Sprint("amberfs-test-", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = unix.Rmdir(dir) })
		if err := errors.Join(os.WriteFile(filepath.Join(dir, limit), fmt.Append(nil, bytes), 0o644),
			os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, pid), 0o644)); err == nil {
			return
		}
	}
	t.Log("there is no control group for the daemon: its memory is only measured")
}
