package hostile_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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
	rnd     *rand.Rand
	fork    string
	amberfs string // the program
	ctx     context.Context
	ended   *atomic.Int64 // commands that were not killed, and did their work
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
	switch z.rnd.IntN(23) {
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
	case 20:
		z.run(func(ctx context.Context) *exec.Cmd { return exportToGit(ctx, z.fork, "latest") })
	case 21:
		z.amber("export", "latest", "--tar", os.DevNull)
	case 22:
		_ = os.Remove(filepath.Join(z.fork, ".snapshots", snapshot))
		z.amber("snapshot", snapshot) // it waits until the snapshot is stored
	}
}

func (z *fuzzer) amber(args ...string) {
	z.run(func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, z.amberfs, append([]string{"-C", z.fork}, args...)...)
	})
}

// run kills a command after a while: some are in the middle then.
func (z *fuzzer) run(command func(ctx context.Context) *exec.Cmd) {
	ctx, stop := context.WithTimeout(z.ctx, time.Duration(z.rnd.Int64N(int64(4*time.Second))))
	defer stop()
	if command(ctx).Run() == nil {
		z.ended.Add(1)
	}
}

// TestEverythingInAFork: programs in a fork do everything that is allowed, at random. The daemon is
// not killed for want of memory, and main goes on. For the first third of the time, the fork's
// exports wait for one of large files.
func TestEverythingInAFork(t *testing.T) {
	const programs, mostMiB = 8, 512
	m := harness.New(t)
	fork := m.Path(".forks", "f")
	must.OK(t, os.Mkdir(fork, 0o755))
	sparse(t, fork)
	kills, peak := func() int64 { return 0 }, func() int64 { return 0 }
	if os.Getuid() == 0 {
		m.Stop()
		kills, peak = harness.LimitMemory(t, m, mostMiB<<20)
		m.Start()
	}
	pid, memory := m.Pid(), most(m.Pid())
	length := 5 * time.Second
	if harness.LongTests() {
		length = 10 * time.Minute
	}
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()

	var running sync.WaitGroup
	var steps, ended atomic.Int64
	running.Go(func() {
		ctx, stop := context.WithTimeout(ctx, length/3)
		defer stop()
		start := time.Now()
		out, err := exportToGit(ctx, fork, "sparse").CombinedOutput() // it is refused, or killed
		t.Logf("the export of large files ended after %v: %v, %s", time.Since(start), err, out)
	})
	for n := range uint64(programs) {
		running.Go(func() {
			z := &fuzzer{rand.New(rand.NewPCG(28, n)), fork, harness.Binary(t), ctx, &ended}
			for ctx.Err() == nil {
				z.step()
				steps.Add(1)
			}
		})
	}
	rounds, longest := 0, map[string]time.Duration{}
	for ; ctx.Err() == nil; rounds++ {
		for _, w := range worksOfMain {
			start := time.Now()
			if err := w.do(m, rounds); err != nil {
				t.Fatalf("main: %s: %v", w.name, err)
			}
			longest[w.name] = max(longest[w.name], time.Since(start))
		}
	}
	running.Wait()

	if got := m.Pid(); got != pid || kills() != 0 {
		t.Errorf("the daemon was process %d, and is %d; %d kills", pid, got, kills())
	}
	mib := memory()
	t.Logf("%d steps in the fork, of which %d commands succeeded, %d rounds in main, %d MiB, %d MiB with pages of files, %d kills; main's longest: %v",
		steps.Load(), ended.Load(), rounds, mib, peak()>>20, kills(), longest)
	if mib > mostMiB {
		t.Errorf("the daemon took %d MiB", mib)
	}
	m.Amberfs("fork", "--discard", "f")
}
