package hostile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the most memory that the daemon has had so far, in MiB.
func peak(t *testing.T, m *harness.Mount) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Pid()))
	must.OK(t, err)
	n, err := strconv.Atoi(string(peakLine.FindSubmatch(b)[1]))
	must.OK(t, err)
	return n >> 10
}

// text is so many bytes of lines that all differ.
func text(size int, of string) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "line %d of %s\n", i, of)
	}
	return b.Bytes()
}

// TestLargeDiffsInAFork: a diff that is larger than what a fork may keep fails, and one
// that is not shows all of it; while the daemon renders them it stays small.
func TestLargeDiffsInAFork(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path(".forks", "f"), 0o755))
	largeDiffs(t, m.Path(".forks", "f"))
	if got := peak(t, m); got > 230 {
		t.Errorf("the daemon took %d MiB", got)
	}
}

func largeDiffs(t *testing.T, ws string) {
	t.Helper()
	fork := func(elem ...string) string { return filepath.Join(append([]string{ws}, elem...)...) }
	must.OK(t, os.WriteFile(fork("big"), text(50<<20, "one"), 0o644))
	must.OK(t, os.Mkdir(fork(".snapshots", "large"), 0o755))
	if _, err := os.ReadFile(fork(".snapshots", "diff@base..large")); !errors.Is(err, unix.EFBIG) {
		t.Errorf("50 MiB: %v", err)
	}
	must.OK(t, os.WriteFile(fork("big"), text(5<<20, "two"), 0o644))
	must.OK(t, os.Mkdir(fork(".snapshots", "larger"), 0o755))
	var id string
	harness.Eventually(t, "the seal", func() bool {
		var info struct{ ID string }
		b, err := os.ReadFile(fork(".snapshots", "info@larger"))
		must.OK(t, err)
		must.OK(t, json.Unmarshal(b, &info))
		id = info.ID
		return id != ""
	})
	for n := 8; n < 64; n++ {
		f, err := os.Open(fork(".snapshots", "diff@base.."+id[:n]))
		must.OK(t, err)
		defer f.Close()
		if _, err := f.Read(make([]byte, 4096)); err != nil {
			t.Error(err)
		}
	}
	must.OK(t, os.WriteFile(fork("big"), text(2<<20, "three"), 0o644))
	if b, err := os.ReadFile(fork(".snapshots", "diff@base")); err != nil || len(b) < 2<<20 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestManyRenderingsInAFork: a program that has only a fork and asks for diffs without
// end does not keep main from being written. The row "beside" of the benchmarks has how fast.
func TestManyRenderingsInAFork(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path(".forks", "f"), 0o755))
	stop := make(chan struct{})
	asked, wait := renderings(t, m.Path(".forks", "f"), stop)
	defer wait()
	defer close(stop)
	harness.Eventually(t, "all have asked", func() bool { return asked.Load() > 320 })
	for range 20 {
		before := asked.Load()
		must.OK(t, os.WriteFile(m.Path("file"), []byte("x"), 0o644))
		harness.Eventually(t, "more renderings begin", func() bool { return asked.Load() > before })
	}
}

// renderings asks for diffs in a fork, 320 at a time, until stop is closed.
func renderings(t *testing.T, fork string, stop <-chan struct{}) (asked *atomic.Int64, wait func()) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(fork, "big"), text(1<<20, "one"), 0o644))
	for i := range 20 {
		must.OK(t, os.Mkdir(filepath.Join(fork, ".snapshots", fmt.Sprintf("r%d", i)), 0o755))
		must.OK(t, os.WriteFile(filepath.Join(fork, "big"), text(1<<20, fmt.Sprint(i)), 0o644))
	}
	var askers sync.WaitGroup
	asked = new(atomic.Int64)
	ask := func(what func(i int)) {
		askers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
					asked.Add(1)
					what(i)
				}
			}
		})
	}
	for n := range 320 {
		ask(func(i int) {
			_, _ = os.Stat(filepath.Join(fork, ".snapshots", fmt.Sprintf("diff@r%d", (i+n)%20)))
		})
	}
	// Else each is made once.
	ask(func(int) { _ = os.Chtimes(filepath.Join(fork, "big"), time.Now(), time.Now()) })
	return asked, askers.Wait
}

// TestManyListsInAFork: long lists of what a restore would change, many at a time, make
// neither a large daemon nor a slow one.
func TestManyListsInAFork(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path(".forks", "f"), 0o755))
	manyFiles(t, m.Path(".forks", "f"), harness.Count(t, "FILES", 10_000, 100_000))
	before := peak(t, m)
	manyLists(t, m.Path(".forks", "f"))
	if got := peak(t, m); got > max(before, 150)+80 {
		t.Errorf("the daemon took %d MiB, %d before", got, before)
	}
}

// manyFiles have long names. A snapshot lacks them.
func manyFiles(t *testing.T, fork string, files int) {
	t.Helper()
	must.OK(t, os.Mkdir(filepath.Join(fork, ".snapshots", "empty"), 0o755))
	dir := filepath.Join(fork, strings.Repeat(strings.Repeat("d", 200)+"/", 10))
	must.OK(t, os.MkdirAll(dir, 0o755))
	for i := range files {
		must.OK(t, os.WriteFile(fmt.Sprintf("%s/%d", dir, i), nil, 0o644))
	}
}

func manyLists(t *testing.T, fork string) {
	t.Helper()
	var askers sync.WaitGroup
	var read atomic.Int32
	for i := range 16 {
		askers.Go(func() {
			path := filepath.Join(fork, ".snapshots", fmt.Sprintf("call.%d", i))
			// A file, also one without its request yet, may have made room for newer ones.
			err := os.WriteFile(path, []byte(`{"op":"restore","name":"empty","dry_run":true}`), 0o600)
			var b []byte
			if err == nil {
				b, err = os.ReadFile(path)
			}
			if err == nil && bytes.Contains(b, []byte(`"more":true`)) {
				read.Add(1)
			} else if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESTALE) {
				t.Errorf("%.100s, %v", b, err)
			}
		})
	}
	askers.Wait()
	if read.Load() == 0 {
		t.Error("no answer was read")
	}
}
