package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// A view shows all that the tree had, before and after the seal, and after
// mounting again; what changes later does not reach it.
func TestViewIsAPerfectCopy(t *testing.T) {
	m := harness.New(t)
	everything(t, m.Dir)
	want := harness.ReadTree(t, m.Dir)
	capture(t, m, "v1")
	view := m.Path(".snapshots", "v1")
	harness.CheckSameTree(t, "view", want, harness.ReadTree(t, view))

	must.OK(t, os.RemoveAll(m.Path("a")))
	write(t, m.Path("file"), "changed, and longer than before\n")
	must.OK(t, os.Truncate(m.Path("large"), 1000))
	must.OK(t, unix.Removexattr(m.Path("file"), "user.note"))
	harness.CheckSameTree(t, "view after changes", want, harness.ReadTree(t, view))

	sealed(t, m, "v1")
	harness.CheckSameTree(t, "sealed view", want, harness.ReadTree(t, view))
	m.Stop()
	m.Start()
	harness.CheckSameTree(t, "view after mounting again", want, harness.ReadTree(t, view))
	restore(t, m, "v1")
	harness.CheckSameTree(t, "restored", want, harness.ReadTree(t, m.Dir))
}

// kill -9 straight after a capture: it is there, with the right contents.
func TestCaptureIsKept(t *testing.T) {
	m := harness.New(t)
	for i := range harness.Count(t, "ROUNDS", 4, 30) {
		dir := m.Path(fmt.Sprintf("d%d", i))
		must.OK(t, os.Mkdir(dir, 0o755))
		if i == 0 {
			everything(t, dir)
		}
		write(t, filepath.Join(dir, "f"), fmt.Sprint("round ", i))
		want := harness.ReadTree(t, m.Dir)
		name := fmt.Sprintf("v%d", i)
		capture(t, m, name)
		m.Kill()
		m.Start()
		harness.CheckSameTree(t, name, want, harness.ReadTree(t, m.Path(".snapshots", name)))
		harness.CheckSameTree(t, "workspace", want, harness.ReadTree(t, m.Dir))
	}
}

// Writers put the same counter into two files, first one, then the other. A
// snapshot never has the second ahead of the first, never the first more than
// one ahead, and never an older count than was written before it began.
func TestCapturesArePointsInTime(t *testing.T) {
	const writers = 4
	m := harness.New(t)
	var count [writers]struct {
		mu sync.Mutex
		n  int
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		first, err := os.Create(m.Path(fmt.Sprintf("first-%d", w)))
		must.OK(t, err)
		defer first.Close()
		must.OK(t, os.Mkdir(m.Path(fmt.Sprintf("dir-%d", w)), 0o755))
		second, err := os.Create(m.Path(fmt.Sprintf("dir-%d/second", w)))
		must.OK(t, err)
		defer second.Close()
		wg.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				for _, f := range []*os.File{first, second} {
					if _, err := f.WriteAt(fmt.Appendf(nil, "%010d", n), 0); err != nil {
						t.Error(err)
						return
					}
				}
				count[w].mu.Lock()
				count[w].n = n
				count[w].mu.Unlock()
			}
		})
	}
	number := func(path string) int {
		data, err := os.ReadFile(path)
		must.OK(t, err)
		if len(data) == 0 {
			return 0
		}
		n, err := strconv.Atoi(string(data))
		must.OK(t, err)
		return n
	}
	at := func(w int) int {
		count[w].mu.Lock()
		defer count[w].mu.Unlock()
		return count[w].n
	}
	for i := range harness.Count(t, "CAPTURES", 60, 2000) {
		var before [writers]int
		for w := range writers {
			before[w] = at(w)
		}
		name := fmt.Sprintf("v%d", i)
		capture(t, m, name)
		for w := range writers {
			after := at(w)
			a := number(m.Path(".snapshots", name, fmt.Sprintf("first-%d", w)))
			b := number(m.Path(".snapshots", name, fmt.Sprintf("dir-%d/second", w)))
			if b > a || a > b+1 {
				t.Errorf("%s, writer %d: first %d, second %d", name, w, a, b)
			}
			if b < before[w] || a > after+1 {
				t.Errorf("%s, writer %d: %d and %d, though %d were written before and %d after", name, w, a, b, before[w], after)
			}
		}
	}
	close(stop)
	wg.Wait()
}

// The same across files in order of creation: entry n is there only if all
// before it are.
func TestCapturesDuringCreation(t *testing.T) {
	m := harness.New(t)
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { done <- n }()
		for ; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := os.WriteFile(m.Path(fmt.Sprintf("f%06d", n)), []byte("x"), 0o644); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range 30 {
		name := fmt.Sprintf("v%d", i)
		capture(t, m, name)
		entries, err := os.ReadDir(m.Path(".snapshots", name))
		must.OK(t, err)
		for j, e := range entries {
			if e.Name() != fmt.Sprintf("f%06d", j) {
				t.Fatalf("%s: entry %d is %s", name, j, e.Name())
			}
		}
		// Contents are complete but for the newest, which may be empty.
		for j := max(0, len(entries)-20); j < len(entries)-1; j++ {
			if got := read(t, m.Path(".snapshots", name, entries[j].Name())); got != "x" {
				t.Errorf("%s: %s of %d has %q", name, entries[j].Name(), len(entries), got)
			}
		}
	}
	close(stop)
	<-done
}
