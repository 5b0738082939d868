package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// BenchmarkRequests bounds from above how long a request of each kind holds the lock of the
// forest: it is the processor time of the whole call, with the journal's write. One thread
// makes rounds as a process of the row curves-many does, with a snapshot after each 250.
func BenchmarkRequests(b *testing.B) {
	s, err := Open(b.TempDir(), Options{Quiet: true})
	must.OK(b, err)
	defer s.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() int64 {
		var t unix.Timespec
		must.OK(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
		return t.Nano()
	}
	clock := spent() // what it takes to ask twice
	clock = spent() - clock
	for range 1000 {
		start := spent()
		clock = min(clock, spent()-start)
	}
	took := map[string][]int64{}
	timed := func(kind string, do func() error) {
		start := spent()
		err := do()
		took[kind] = append(took[kind], spent()-start-clock)
		must.OK(b, err)
	}
	f, dir, block := s.Forest(), live.Node(live.MainView, live.RootIno), make([]byte, 4096)
	for i := 0; b.Loop(); i++ {
		name, to := fmt.Sprint("a", i), fmt.Sprint("b", i)
		var a live.Attr
		timed("create", func() (err error) { a, err = f.Create(dir, name, live.NewNode{Mode: unix.S_IFREG | 0o644}); return })
		timed("write", func() error { _, err := f.Write(a.ID, block, 0, false); return err })
		timed("lookup", func() error { _, err := f.Lookup(dir, name); return err })
		timed("getattr", func() error { _, err := f.GetAttr(a.ID); return err })
		timed("read", func() error { _, err := f.ReadAt(a.ID, block, 0); return err })
		timed("rename", func() error { _, err := f.Rename(dir, name, dir, to, 0, actors.Caller{}); return err })
		if i%2 == 1 {
			timed("unlink", func() error { _, err := f.Unlink(dir, to); return err })
		}
		if i%250 == 249 {
			timed("snapshot", func() error { _, err := s.Main().Capture(CaptureOptions{}); return err })
		}
	}
	b.ReportMetric(0, "ns/op") // of a round, by the clock
	for _, kind := range slices.Sorted(maps.Keys(took)) {
		all, sum := took[kind], int64(0)
		for _, t := range all {
			sum += t
		}
		slices.Sort(all)
		b.ReportMetric(float64(sum)/float64(len(all))/1e3, kind+"-µs")
		b.ReportMetric(float64(all[len(all)*99/100])/1e3, kind+"-p99-µs")
	}
}

// BenchmarkForks changes a byte of main, with more and more forks that have changes of their own,
// and makes a checkpoint, or a round of the policies.
func BenchmarkForks(b *testing.B) {
	s, err := Open(b.TempDir(), Options{Quiet: true})
	must.OK(b, err)
	defer s.Close()
	made := 0
	for _, n := range []int{10, 100, 1_000, 10_000} {
		for ; made < n; made++ {
			_, err := s.forest.Create(forkNamed(b, s.Main(), fmt.Sprint("f", made)).Root(), "file", live.NewNode{Mode: unix.S_IFREG | 0o644})
			must.OK(b, err)
		}
		a, err := s.forest.Create(s.Main().Root(), fmt.Sprint(n), live.NewNode{Mode: unix.S_IFREG | 0o644})
		must.OK(b, err)
		work := func(name string, do func()) {
			do()
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				start := processors(b)
				for b.Loop() {
					_, err := s.forest.Write(a.ID, []byte("x"), 0, false)
					must.OK(b, err)
					do()
				}
				b.ReportMetric(float64((processors(b)-start).Microseconds())/float64(b.N), "cpu-µs/op")
			})
		}
		work("checkpoint", func() { must.OK(b, s.Checkpoint(b.Context())) })
		work("round", func() { s.policies.Round() })
	}
}

// processors is the time of processors that the process has taken.
func processors(b *testing.B) time.Duration {
	var u unix.Rusage
	must.OK(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkListing lists a stored directory with the attributes of each name, 200 at a time. A
// listing is in the order of the names' hashes; inodes lie in the order in which they were made.
func BenchmarkListing(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		at := b.TempDir()
		s, err := Open(at, Options{Quiet: true})
		must.OK(b, err)
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprint("name", i)
		}
		list := func(dir live.NodeID, fn func(name string)) {
			for after, got := uint64(0), 1; got > 0; {
				got = 0
				must.OK(b, s.forest.ReadDirPlus(dir, after, func(e tree.Dirent, _ *live.Attr, cookie uint64) bool {
					if got == 200 {
						return false
					}
					fn(e.Name)
					after, got = cookie, got+1
					return true
				}))
			}
		}
		dirs := map[string]live.NodeID{}
		for _, order := range []string{"other", "same"} {
			dir, err := s.forest.Create(s.Main().Root(), order, live.NewNode{Mode: unix.S_IFDIR | 0o755})
			must.OK(b, err)
			dirs[order] = dir.ID
			for _, name := range names {
				_, err := s.forest.Create(dir.ID, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
				must.OK(b, err)
			}
			names = names[:0]
			list(dir.ID, func(name string) { names = append(names, name) })
		}
		capture(b, s.Main(), CaptureOptions{Name: "s"})
		_, err = s.Main().Snapshots().WaitSealed(b.Context(), "s")
		must.OK(b, errors.Join(err, s.Close()))
		for order, dir := range dirs {
			for _, when := range []string{"cold", "warm"} {
				b.Run(fmt.Sprintf("%d/%s-order/%s", n, order, when), func(b *testing.B) {
					s, err = Open(at, Options{Quiet: true})
					must.OK(b, err)
					var spent time.Duration
					for first := true; b.Loop(); first = false {
						if when == "cold" && !first {
							must.OK(b, s.Close())
							s, err = Open(at, Options{Quiet: true})
							must.OK(b, err)
						}
						start := processors(b)
						list(dir, func(string) {})
						spent += processors(b) - start
					}
					b.ReportMetric(float64(spent.Microseconds())/float64(b.N)/float64(n), "cpu-µs/name")
					must.OK(b, s.Close())
				})
			}
		}
	}
}
