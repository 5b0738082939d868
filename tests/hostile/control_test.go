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
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// controlMemory is what the daemon may have beside a hostile tenant, in MiB.
const controlMemory = 512

// maxPassed is how many things 16 tenants may do while main writes once.
const maxPassed = 16 * 16

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
		`{"op":"diff","a":"v1","format":"stat"}`, `{"op":"diff","a":"v2","binary":true}`, `{"op":"blame","path":"large0"}`, `{"op":"summaries","names":["v1","v2"]}`,
		`{"op":"export","name":"v1"}`, `{"op":"export","name":"v2"}`, `{"op":"merge","fork":"v1","dry_run":true}`, `{"op":"merge","fork":"v2"}`,
		`{"op":"undo-by","by":"root","dry_run":true}`, `{"op":"compact","names":["v1","v2"]}`, `{"op":"conflict","fork":"v1","path":"large1"}`,
		`{"op":"hunks","a":"v1","path":"large2"}`, `{"op":"restore","name":"v2"}`,
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

// change changes a large file in one of the ways that bring few bytes, or many.
func (x *tenant) change() {
	dir := x.pick([]string{x.fork, filepath.Join(x.fork, ".forks", x.pick(names[19:22]))})
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint("large", x.IntN(4))), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	size, _ := f.Seek(0, 2)
	switch x.IntN(6) {
	case 0:
		_ = f.Truncate(1 << x.IntN(62))
	case 1:
		_, _ = f.WriteAt([]byte(strings.Repeat(x.pick([]string{"\n", "line\n", "x"}), 1<<x.IntN(22))), x.Int64N(size+1))
	case 2, 3: // doubled, up to 256 MB
		if size <= 128<<20 {
			from, to := int64(0), size
			_, _ = unix.CopyFileRange(int(f.Fd()), &from, int(f.Fd()), &to, int(size), 0)
		}
	case 4:
		mode := uint32(unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE)
		if x.IntN(2) == 0 {
			mode = unix.FALLOC_FL_ZERO_RANGE
		}
		_ = unix.Fallocate(int(f.Fd()), mode, x.Int64N(size+1), 1<<x.IntN(40))
	case 5:
		for i := range int64(512) {
			_, _ = f.WriteAt([]byte{1}, 2*i)
		}
	}
}

// step does one thing. Most fail, which is not an error.
func (x *tenant) step() {
	switch x.IntN(15) {
	case 12, 13, 14:
		x.change()
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
// done counts what they have done.
func tenants(fork string, seed uint64, done *atomic.Int64, stop <-chan struct{}) (wait func()) {
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
					done.Add(1)
				}
			}
		})
	}
	return all.Wait
}

// TestHostileControlFiles plays programs in a fork that do whatever can be done with control
// files, with sizes at random and handles kept: the daemon stays small and answers main.
// The row "beside" of the benchmarks has how fast.
func TestHostileControlFiles(t *testing.T) {
	m := harness.NewUnmounted(t, "")
	kills, _ := harness.LimitMemory(t, m, controlMemory<<20)
	m.Start()
	memory := most(m.Pid())
	must.OK(t, os.WriteFile(m.Path(".snapshots", "policy"), []byte(`{"forks":{"unshared_bytes":100000000}}`), 0o644))
	must.OK(t, os.Mkdir(m.Path(".forks", "f"), 0o755))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	stop := make(chan struct{})
	var done atomic.Int64
	passed := int64(0) // the most that they did during a write in main
	wait := tenants(m.Path(".forks", "f"), seed, &done, stop)
	for i := range harness.Count(t, "WRITES", 500, 100_000) {
		before := done.Load()
		must.OK(t, os.WriteFile(m.Path("file"), fmt.Append(nil, i), 0o644))
		passed = max(passed, done.Load()-before)
		b, err := os.ReadFile(m.Path("file"))
		if must.OK(t, err); string(b) != fmt.Sprint(i) {
			t.Fatalf("the file has %q instead of %d", b, i)
		}
	}
	close(stop)
	m.Amberfs("fork", "--discard", "f") // which ends what they wait for
	wait()
	used := memory()
	t.Logf("the daemon took %d MiB; of %d operations of the tenants, %d were done during one write in main", used, done.Load(), passed)
	if n := kills(); n > 0 || used > controlMemory {
		t.Errorf("the daemon took %d MiB and was killed %d times", used, n)
	}
	// Each of the 16 may do a few things while a write in main waits for a processor, and most
	// of what they do takes no request.
	if passed > maxPassed {
		t.Errorf("the tenants did %d things during one write in main", passed)
	}
	must.OK(t, os.Mkdir(m.Path(".snapshots", "after"), 0o755))
	if b, err := os.ReadFile(m.Path(".snapshots", "list")); err != nil || !strings.HasPrefix(string(b), "after\t") {
		t.Errorf("%q, %v", b, err)
	}
}
