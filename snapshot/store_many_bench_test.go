package snapshot

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/tests/must"
)

// BenchmarkMany opens a store of many snapshots (SNAPSHOTS, else 1,000) of 10,000 files, with 10
// changes before each, and collects its garbage. With MANY=DIR the store is in DIR and stays.
func BenchmarkMany(b *testing.B) {
	n, _ := strconv.Atoi(cmp.Or(os.Getenv("SNAPSHOTS"), "1000"))
	dir := filepath.Join(cmp.Or(os.Getenv("MANY"), b.TempDir()), "store")
	if _, err := os.Stat(dir); err != nil {
		makeMany(b, dir, n)
	}

	var s *Store
	timed := func(what string, do func()) {
		spent := processors(b)
		do()
		b.Logf("%s: processors %v, %d MB resident", what, processors(b)-spent, resident(b)>>20)
	}
	for b.Loop() {
		b.Logf("before: %d MB resident", resident(b)>>20)
		timed("open", func() {
			var err error
			s, err = Open(dir, Options{})
			must.OK(b, err)
		})
		timed("Go's garbage collector", debug.FreeOSMemory)
		for range 2 {
			timed("gc", func() {
				res, err := s.GC(b.Context(), nil)
				must.OK(b, err)
				b.Logf("%+v", res)
			})
		}
		timed("list", func() { b.Logf("%d snapshots", len(s.Main().List())) })
		timed("close", func() { must.OK(b, s.Close()) })
	}
}

func makeMany(b *testing.B, dir string, n int) {
	s, err := Open(dir, Options{})
	must.OK(b, err)
	p := policy.Default()
	p.Keep, p.IntervalSeconds = policy.Keep{}, 0
	must.OK(b, s.Main().SetPolicy(p, actors.Caller{}))
	var files []live.NodeID
	for d := range 100 {
		at, err := s.forest.Create(s.Main().Root(), fmt.Sprint("dir", d), live.NewNode{Mode: unix.S_IFDIR | 0o755})
		must.OK(b, err)
		for f := range 100 {
			a, err := s.forest.Create(at.ID, fmt.Sprint("file", f), live.NewNode{Mode: unix.S_IFREG | 0o644})
			must.OK(b, err)
			_, err = s.forest.Write(a.ID, fmt.Appendf(nil, "%0200d", d*f), 0, false)
			must.OK(b, err)
			files = append(files, a.ID)
		}
	}
	for i := range n {
		for c := range 10 {
			_, err := s.forest.Write(files[(i*10+c)*7919%len(files)], fmt.Appendf(nil, "%d %d", i, c), 0, false)
			must.OK(b, err)
		}
		sn := capture(b, s.Main(), CaptureOptions{})
		if i%500 == 499 {
			_, err := s.Main().Snapshots().WaitSealed(b.Context(), sn.Name)
			must.OK(b, err)
		}
	}
	must.OK(b, s.Close())
}

// resident is the resident memory of the process.
func resident(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	must.OK(b, err)
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	must.OK(b, err)
	return pages * int64(os.Getpagesize())
}
