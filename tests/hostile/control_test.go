package hostile_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
)

// controlMemory is what the daemon may have beside a hostile tenant, in MiB.
const controlMemory = 512

// A tenant is a program that has one fork and does whatever can be done with its control
// files.
type tenant struct {
	*rand.Rand
	fork string
	open []*os.File // handles that it keeps
}

// names are names of control files, of some snapshots, and of files of its own.
var names = []string{
	"create", "restore", "fork", "export", "push", "call", "list", "log", "status", "policy", "README", "latest", "undo",
	"create.tmp.1", "call.x", "call.x.stream", ".call.swp", "sedAbC123", "restore.tmp", "v1", "v2", "v3", "v4", "cp-1", "nothing",
	"diff@v1", "diff@v1..v2", "diff@v2..v3", "diff@cp-2", "stat@v1", "stat@v2..v1", "info@v1", "info@v2", "info@v3", "restore@v1", "restore@undo",
}

func (x *tenant) pick(from []string) string { return from[x.IntN(len(from))] }

func (x *tenant) path() string {
	name := x.pick(names)
	if x.IntN(8) == 0 {
		name = fmt.Sprintf("call.%d", x.IntN(2000))
	}
	return filepath.Join(x.fork, ".snapshots", name)
}

// text is some bytes, at times of what JSON needs six bytes for.
func (x *tenant) text() string {
	return strings.Repeat(x.pick([]string{"x", "\x01", "line\n", "é", `"`}), 1<<x.IntN(16))
}

func (x *tenant) command() string {
	quoted := strconv.Quote(strings.Repeat("x", 1<<x.IntN(15)))
	return x.pick([]string{
		"v1", "v2 " + x.text(), "v" + strconv.Itoa(x.IntN(50)) + " " + x.text(), "\n",
		`{"op":"list"}`, `{"op":"status"}`, `{"op":"diff","a":"v1"}`, `{"op":"diff","a":"v1","b":"v2"}`, `{"op":"changes","a":"v1"}`,
		`{"op":"history","path":"big"}`, `{"op":"events"}`, `{"op":"restore","name":"v1","dry_run":true}`, `{"op":"forks"}`, `{"op":"file","path":"big"}`,
		`{"op":"snapshot","name":"v3","message":` + quoted + `}`, `{"op":"remove","names":["v3","v2"]}`,
		`{"op":` + x.text(), "{" + x.text(), x.text(),
	})
}

// keep keeps a handle, and forgets another one when there are many.
func (x *tenant) keep(f *os.File, err error) {
	if err != nil {
		return
	}
	x.open = append(x.open, f)
	if len(x.open) > 200 {
		i := x.IntN(len(x.open))
		x.open[i].Close()
		x.open = slices.Delete(x.open, i, i+1)
	}
}

// step does one thing. Most fail, which is not an error.
func (x *tenant) step() {
	switch x.IntN(12) {
	case 0:
		_, _ = os.Stat(x.path())
	case 1:
		_, _ = os.ReadFile(x.path())
	case 2, 3:
		_ = os.WriteFile(x.path(), []byte(x.command()), 0o644)
	case 4:
		x.keep(os.OpenFile(x.path(), x.IntN(3)|x.IntN(2)*os.O_CREATE|x.IntN(2)*os.O_TRUNC, 0o644))
	case 5:
		_ = os.Rename(x.path(), x.path())
	case 6:
		_ = os.Mkdir(x.path(), 0o755)
		_ = os.Mkdir(filepath.Join(x.fork, ".forks", x.pick(names)), 0o755)
	case 7:
		_ = unix.Rmdir(filepath.Join(x.fork, x.pick([]string{".snapshots", ".forks"}), x.pick(names)))
	case 8:
		_ = unix.Unlink(x.path())
	case 9:
		if len(x.open) > 0 {
			f := x.open[x.IntN(len(x.open))]
			_, _ = f.Write([]byte(x.command()))
			_, _ = f.ReadAt(make([]byte, 1<<x.IntN(20)), int64(x.IntN(1<<20)))
		}
	case 10:
		_ = os.WriteFile(filepath.Join(x.fork, "big"), text(1<<x.IntN(23), x.pick(names)), 0o644)
	case 11:
		_, _ = os.ReadDir(filepath.Dir(x.path()))
		_ = os.Truncate(x.path(), int64(x.IntN(1<<17)))
	}
}

// tenants are 16 programs in one fork, until stop is closed.
func tenants(fork string, seed uint64, stop <-chan struct{}) (wait func()) {
	var all sync.WaitGroup
	for i := range 16 {
		x := &tenant{Rand: rand.New(rand.NewPCG(seed, uint64(i))), fork: fork}
		all.Go(func() {
			defer func() {
				for _, f := range x.open {
					f.Close()
				}
			}()
			for {
				select {
				case <-stop:
					return
				default:
					x.step()
				}
			}
		})
	}
	return all.Wait
}

// limitMemory puts the daemon into a control group with so many MiB. It reports how often
// the kernel killed a process for want of memory in there.
func limitMemory(t *testing.T, pid int) (kills func() int) {
	t.Helper()
	group := filepath.Join("/sys/fs/cgroup", fmt.Sprintf("amberfs-test-%d", pid))
	limit, events, count := "memory.max", "memory.events", "oom_kill "
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil { // version 1
		group = filepath.Join("/sys/fs/cgroup/memory", filepath.Base(group))
		limit, events = "memory.limit_in_bytes", "memory.oom_control"
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Logf("no control group, so the memory is only measured: %v", err)
		return func() int { return 0 }
	}
	t.Cleanup(func() { // before the daemon ends, which may have children
		harness.Eventually(t, group+" is removed", func() bool {
			_ = os.WriteFile(filepath.Join(filepath.Dir(group), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
			return unix.Rmdir(group) == nil
		})
	})
	err := os.WriteFile(filepath.Join(group, limit), []byte(strconv.Itoa(controlMemory<<20)), 0o644)
	if err == nil {
		err = os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
	}
	if err != nil {
		t.Logf("no control group, so the memory is only measured: %v", err)
		return func() int { return 0 }
	}
	return func() int {
		b, err := os.ReadFile(filepath.Join(group, events))
		must(t, err)
		_, rest, _ := strings.Cut(string(b), count)
		n, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
		return n
	}
}

// TestHostileControlFiles plays programs in a fork that do whatever can be done with control
// files, with sizes at random and handles kept: the daemon stays small and answers main.
// The row "beside" of the benchmarks has how fast.
func TestHostileControlFiles(t *testing.T) {
	m := harness.New(t)
	kills := limitMemory(t, m.Pid())
	memory := most(m.Pid())
	must(t, os.Mkdir(m.Path(".forks", "f"), 0o755))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	stop := make(chan struct{})
	wait := tenants(m.Path(".forks", "f"), seed, stop)
	for i := range harness.Count(t, "WRITES", 500, 100_000) {
		must(t, os.WriteFile(m.Path("file"), fmt.Append(nil, i), 0o644))
		b, err := os.ReadFile(m.Path("file"))
		if must(t, err); string(b) != fmt.Sprint(i) {
			t.Fatalf("the file has %q instead of %d", b, i)
		}
	}
	close(stop)
	wait()
	used := memory()
	t.Logf("the daemon took %d MiB", used)
	if n := kills(); n > 0 || used > controlMemory {
		t.Errorf("the daemon took %d MiB and was killed %d times", used, n)
	}
	must(t, os.Mkdir(m.Path(".snapshots", "after"), 0o755))
	if b, err := os.ReadFile(m.Path(".snapshots", "list")); err != nil || !strings.HasPrefix(string(b), "after\t") {
		t.Errorf("%q, %v", b, err)
	}
}
