package actors

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/harness"
)

const writerEnv = "AMBERFS_TEST_WRITER" // FILE INTERVAL COUNT

// writer is a program of TestAlternation: it appends lines at an even pace, and prints
// how long each took.
func writer(t *testing.T) {
	var file string
	var interval time.Duration
	var n int
	if _, err := fmt.Sscan(os.Getenv(writerEnv), &file, (*int64)(&interval), &n); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	took := make([]time.Duration, n)
	next := time.Now()
	for i := range took {
		time.Sleep(time.Until(next))
		next = next.Add(interval)
		begin := time.Now()
		if _, err := f.WriteString("a line of a log, as programs write them\n"); err != nil {
			t.Fatal(err)
		}
		took[i] = time.Since(begin)
	}
	out, err := json.Marshal(took)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s\n", out)
}

// writers runs some programs, each in a session of its own, that write 1,000 lines a second
// together, and returns the 99th percentile of a write.
func writers(t *testing.T, file string, n int, d time.Duration) time.Duration {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	interval := time.Duration(n) * time.Millisecond
	var mu sync.Mutex
	var all []time.Duration
	var wait sync.WaitGroup
	for range n {
		cmd := exec.Command(self, "-test.run", "^TestAlternation$")
		cmd.Env = append(os.Environ(), fmt.Sprint(writerEnv, "=", file, " ", int64(interval), " ", int64(d/interval)))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		wait.Go(func() {
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("a writer: %v: %s", err, out)
				return
			}
			var took []time.Duration
			if err := json.Unmarshal([]byte(strings.Split(string(out), "\n")[1]), &took); err != nil {
				t.Errorf("a writer: %v: %.200s", err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	wait.Wait()
	if len(all) == 0 {
		t.Fatal("nothing was written")
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

// TestAlternation: two programs that append to one log have at most one snapshot a second
// between them, and the file is by both. In its long form it takes a minute, and their
// writes take no longer than those of one program.
func TestAlternation(t *testing.T) {
	if os.Getenv(writerEnv) != "" {
		writer(t)
		return
	}
	long := os.Getenv("AMBERFS_TEST_LONG") != ""
	rounds, d := 1, 3*time.Second
	if long {
		rounds, d = 6, 5*time.Second
	}
	m := harness.New(t)
	var ones, twos []time.Duration
	var spent time.Duration
	for i := range rounds {
		ones = append(ones, writers(t, m.Path(fmt.Sprint("one", i)), 1, d))
		begin := time.Now()
		twos = append(twos, writers(t, m.Path("log"), 2, d))
		spent += time.Since(begin)
	}
	slices.Sort(ones)
	slices.Sort(twos)
	one, two := ones[len(ones)/2], twos[len(twos)/2]
	snapshots := strings.Count(m.Amberfs("list", "--kind", "actor"), "\n")
	t.Logf("%d snapshots in %v; the 99th percentile of a write is %v with one program and %v with two", snapshots, spent, one, two)
	if most := int(spent/time.Second) + rounds; snapshots == 0 || snapshots > most {
		t.Errorf("%d snapshots between two actors in %v, at most %d", snapshots, spent, most)
	}
	if long && two > one*12/10 {
		t.Errorf("the 99th percentile of a write is %v with two programs and %v with one", two, one)
	}
	m.Amberfs("snapshot", "last")
	var info struct{ Actors []string }
	if err := json.Unmarshal([]byte(m.Amberfs("show", "last", "--json")), &info); err != nil {
		t.Fatal(err)
	}
	if len(info.Actors) < 1 {
		t.Errorf("the actors of the log are %v", info.Actors)
	}
}
