package journal

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// world is a journal on a disk that crashes, and what must be in it.
type world struct {
	t      *testing.T
	rnd    *rand.Rand
	fs     *vfstest.Mem
	j      *Journal
	items  []item // all that may be there, oldest first
	from   int64  // position of the first of items
	synced int    // items that must be there
	next   uint64
}

func (w *world) open() {
	w.t.Helper()
	j, err := Open(testDir, memOptions(w.fs))
	if err != nil {
		w.t.Fatalf("open after a crash: %v", err)
	}
	w.j = j
}

func (w *world) step() {
	switch n := w.rnd.IntN(100); {
	case n < 80:
		it, err := appendItem(w.j, w.rnd, w.next, []int{1, 100, 3000, 20000}[w.rnd.IntN(4)])
		must.OK(w.t, err)
		w.next++
		w.items = append(w.items, it)
	case n < 92:
		must.OK(w.t, w.j.Sync())
		w.synced = len(w.items)
	case n < 96 && w.synced > 0:
		// As after a checkpoint: what lies before it is not needed any more.
		k := w.rnd.IntN(w.synced) + 1
		pos := w.items[k-1].end
		must.OK(w.t, w.j.DropBefore(pos))
		w.from, w.items, w.synced = pos, w.items[k:], w.synced-k
	case n == 96:
		pos := w.j.End()
		must.OK(w.t, w.j.Shrink(pos))
		w.from, w.items, w.synced = pos, nil, 0
	case n < 98:
		must.OK(w.t, w.j.Close())
		w.synced = len(w.items)
		w.open()
	}
}

// crash takes the machine down and looks at what is left.
func (w *world) crash(keep float64) {
	w.fs = w.fs.CrashClone(keep, w.rnd)
	w.open()
	got, err := collect(w.j, w.from)
	if err != nil {
		w.t.Fatalf("replay after a crash: %v", err)
	}
	samePrefix(w.t, got, w.items)
	if len(got) < w.synced {
		w.t.Fatalf("%d records survived, %d were synced", len(got), w.synced)
	}
	w.items = w.items[:len(got)]
	readBack(w.t, w.j, w.items)
	end := w.from
	if len(w.items) > 0 {
		end = w.items[len(w.items)-1].end
	}
	if w.j.End() < end {
		w.t.Fatalf("end is %d, the last record ends at %d", w.j.End(), end)
	}
}

func TestPowerCuts(t *testing.T) {
	for seed := range sample(150, 40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), fs: vfstest.NewMem()}
			w.open()
			for range 8 {
				for range w.rnd.IntN(40) {
					w.step()
				}
				w.crash([]float64{0, 0.2, 0.5, 0.9, 1}[w.rnd.IntN(5)])
			}
		})
	}
}

// Every write is torn once: what was acknowledged stays, in order.
func TestFailingDisk(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		for n := int64(0); ; n += int64(sample(1, 3)) {
			mem := vfstest.NewMem()
			faulty := vfstest.FailAt(mem, n, cause)
			rnd := rand.New(rand.NewPCG(uint64(n), 3))
			items := failingRun(faulty, rnd)
			j := mustOpen(t, memOptions(mem))
			got, err := collect(j, 0)
			if err != nil {
				t.Fatalf("operation %d failed with %v; then: %v", n, cause, err)
			}
			if len(got) > len(items) {
				// The record whose write failed may have reached the disk whole.
				t.Fatalf("operation %d failed with %v: %d records, %d acknowledged", n, cause, len(got), len(items))
			}
			samePrefix(t, got, items)
			if len(got) < len(items) {
				t.Fatalf("operation %d failed with %v: %d of %d acknowledged records are there", n, cause, len(got), len(items))
			}
			_, err = j.Append(1, nil, []byte("on"), false)
			must.OK(t, err)
			must.OK(t, j.Close())
			if !faulty.Failed() {
				break
			}
		}
	}
}

// failingRun appends, syncs, closes and opens, whatever fails, and returns what
// was acknowledged.
func failingRun(fs vfs.FS, rnd *rand.Rand) []item {
	var items []item
	for range 3 {
		j, err := Open(testDir, memOptions(fs))
		if err != nil {
			continue
		}
		for i := range 12 {
			if it, err := appendItem(j, rnd, uint64(len(items)), 8000); err == nil {
				items = append(items, it)
			}
			if i%5 == 4 {
				_ = j.Sync() // the failure is what is being tested
			}
		}
		_ = j.Close()
	}
	return items
}

// A journal whose fdatasync failed takes no more until it is opened again.
func TestFailedSyncSticks(t *testing.T) {
	mem := vfstest.NewMem()
	probe := vfstest.FailAt(mem, 1<<60, nil)
	j := mustOpen(t, memOptions(probe))
	_, err := j.Append(1, nil, []byte("a"), false)
	must.OK(t, err)
	before := probe.Count()
	mem = vfstest.NewMem()
	faulty := vfstest.FailAt(mem, before, syscall.EIO)
	j = mustOpen(t, memOptions(faulty))
	pos, err := j.Append(1, nil, []byte("a"), false)
	must.OK(t, err)
	for range 2 {
		if err := j.Sync(); !isFailed(err) {
			t.Fatalf("sync: %v", err)
		}
		if _, err := j.Append(1, nil, []byte("b"), false); !isFailed(err) {
			t.Fatalf("append after a failed sync: %v", err)
		}
	}
	p := make([]byte, 1)
	if err := j.ReadAt(p, pos, pos); err != nil || p[0] != 'a' {
		t.Fatalf("read after a failed sync: %q %v", p, err)
	}
	if err := j.Close(); !isFailed(err) {
		t.Fatalf("close after a failed sync: %v", err)
	}
}
