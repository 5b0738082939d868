package fulldisk_test

import (
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

// TestOthersFillTheDiskAgainAndAgain has another program take the disk to the last block
// and give it back, while files are written and removed, snapshots come and go, and gc
// runs: the daemon lives, writes fail with ENOSPC alone, and go on when there is room.
func TestOthersFillTheDiskAgainAndAgain(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	rounds := harness.Count(t, "ROUNDS", 5, 200)
	dir := filepath.Join(t.TempDir(), "disk")
	must.OK(t, os.Mkdir(dir, 0o755))
	ext4(t, dir, 192<<20)
	m := harness.NewUnmounted(t, filepath.Join(dir, "store"))
	m.Start()
	must.OK(t, os.WriteFile(m.Path("kept"), noise(-1, 1<<20), 0o644))

	stop := make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return t.Failed()
		}
	}
	var all sync.WaitGroup
	var collected atomic.Int64
	written := make([][]int, 2) // by writer: the files that were written to the end
	for w := range written {
		must.OK(t, os.Mkdir(m.Path(fmt.Sprint(w)), 0o755))
		all.Go(func() {
			for i := 0; !stopped(); i++ {
				written[w] = writeSome(t, m, w, i, written[w])
			}
		})
	}
	all.Go(func() {
		for i := 0; !stopped(); i++ {
			name := m.Path(".snapshots", fmt.Sprint("s", i))
			if full(t, os.Mkdir(name, 0o755)) {
				continue
			}
			_, _ = harness.RunAmberfs("-C", m.Dir, "gc") // may find no room
			harness.Eventually(t, "the snapshot is removed", func() bool { return !full(t, unix.Rmdir(name)) || t.Failed() })
			collected.Add(1)
		}
	})
	refused := 0
	for range rounds {
		before := collected.Load()
		harness.Eventually(t, "gc goes on", func() bool { return collected.Load() > before || t.Failed() })
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) // meets each step of what goes on
		others := filepath.Join(dir, "others")
		takeAll(t, others)
		for range 20 {
			if full(t, os.WriteFile(m.Path("probe"), noise(1, 1<<20), 0o644)) {
				refused++
				break // gc may make room meanwhile
			}
		}
		must.OK(t, os.Remove(others))
		harness.Eventually(t, "there is room again", func() bool { return !full(t, os.WriteFile(m.Path("probe"), noise(1, 1<<20), 0o644)) || t.Failed() })
		if t.Failed() {
			break
		}
	}
	close(stop)
	all.Wait()
	if t.Failed() {
		return
	}
	t.Logf("of %d rounds, a write failed in %d", rounds, refused)
	if refused == 0 {
		t.Error("the disk was never full")
	}
	check := func() {
		t.Helper()
		if got, err := os.ReadFile(m.Path("kept")); err != nil || string(got) != string(noise(-1, 1<<20)) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		for w, files := range written {
			for _, i := range files {
				if got, err := os.ReadFile(m.Path(fmt.Sprintf("%d/f%d", w, i))); err != nil || string(got) != string(some(w, i)) {
					t.Fatalf("file %d of %d: %d bytes, %v", i, w, len(got), err)
				}
			}
		}
	}
	check()
	m.Kill()
	m.Start()
	check()
	m.Stop()
	if out, err := harness.RunAmberfs("verify", m.Store); err != nil {
		t.Errorf("amberfs verify: %v\n%s", err, out)
	}
}

func some(w, i int) []byte { return noise(int64(w)<<32|int64(i), 500+i*7919%40_000) }

// writeSome writes a file, and removes the oldest if there are many.
func writeSome(t *testing.T, m *harness.Mount, w, i int, written []int) []int {
	name := func(i int) string { return m.Path(fmt.Sprintf("%d/f%d", w, i)) }
	if !full(t, os.WriteFile(name(i), some(w, i), 0o644)) {
		written = append(written, i)
	} else {
		_ = os.Remove(name(i)) // it may be there in part
	}
	if len(written) > 300 && !full(t, os.Remove(name(written[0]))) {
		written = written[1:]
	}
	return written
}

// full reports whether there was no room, which is the only error that may be.
func full(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	return err != nil
}
