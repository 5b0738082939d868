package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// littleMemory is the account of the tests, and heapLimit what the heap may then grow by: the
// account, the caches, and as much garbage.
const (
	littleMemory = 16 << 20
	heapLimit    = 64 << 20
)

// heap is how many bytes of the heap are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func createIn(t *testing.T, s *Store, view uint32, name string) live.NodeID {
	t.Helper()
	var a live.Attr
	must.OK(t, cas.Retry(t.Context(), func() (err error) {
		a, err = s.Forest().Create(live.Node(view, live.RootIno), name, live.NewNode{Mode: unix.S_IFREG | 0o644})
		return err
	}))
	return a.ID
}

// clones writes a file of one-byte parts, and copies it again and again. It returns how many parts
// were made, and the error that ended it.
func clones(s *Store, view uint32, create func(string) live.NodeID, parts int) (made int, err error) {
	a := create("a")
	for i := range int64(1024) {
		if err := cas.Retry(context.Background(), func() error {
			_, err := s.Forest().Write(a, []byte{'x'}, 2*i, false)
			return err
		}); err != nil {
			return made, err
		}
	}
	b := create("b")
	for at := int64(0); made < parts; made += 1024 {
		if err := cas.Retry(context.Background(), func() error {
			n, err := s.Forest().CopyRange(a, 0, b, at, 2048)
			at += n
			return err
		}); err != nil {
			return made, err
		}
		at++
	}
	return made, nil
}

// A fork that makes parts of files has no more of them in memory than its share, and is served all
// the same, because they are sealed. The memory that opening the store takes then is bounded too,
// whether the daemon stopped or was killed.
func TestPartsAreBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, Options{Quiet: true, MemoryBytes: littleMemory})
	must.OK(t, err)
	f, err := s.Main().Forks().New(ForkOptions{Name: "f"})
	must.OK(t, err)
	view := f.ws.View
	before := heap()
	made, err := clones(s, view, func(name string) live.NodeID { return createIn(t, s, view, name) }, 600_000)
	if err != nil && !errors.Is(err, errs.Quota) {
		t.Fatal(err)
	}
	if made < 300_000 {
		t.Errorf("the fork made %d parts, then: %v", made, err)
	}
	if most := s.mem.PeakUsedBytes(); most > littleMemory {
		t.Errorf("%d bytes were charged, of %d", most, littleMemory)
	}
	if grown := heap() - before; grown > heapLimit {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	must.OK(t, s.Close())
	opened, err := Open(dir, Options{Quiet: true, MemoryBytes: littleMemory})
	must.OK(t, err)
	must.OK(t, opened.Close())
}

// What it takes to open a store is bounded, whatever its journal has: parts in many files, new
// inodes, snapshots of each state, and the steps of a restore.
func TestOpeningIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, Options{Quiet: true, MemoryBytes: 1 << 40})
	must.OK(t, err)
	f, err := s.Main().Forks().New(ForkOptions{Name: "f"})
	must.OK(t, err)
	create := func(name string) live.NodeID { return createIn(t, s, f.ws.View, name) }
	_, err = clones(s, f.ws.View, create, 500_000)
	must.OK(t, err)
	for i := range 20_000 {
		create(fmt.Sprintf("file%d", i))
	}
	_, err = f.Capture(CaptureOptions{Name: "all"})
	must.OK(t, err)
	must.OK(t, s.log.Sync())
	killed := filepath.Join(t.TempDir(), "store")
	must.CopyStore(t, killed, dir)
	must.OK(t, s.Close())
	before := heap()
	frugal := filepath.Join(t.TempDir(), "store")
	must.CopyStore(t, frugal, killed)
	opened, err := Open(killed, Options{Quiet: true, MemoryBytes: littleMemory})
	must.OK(t, err)
	defer opened.Close()
	if most := opened.mem.PeakUsedBytes(); most > littleMemory {
		t.Errorf("recovery had %d bytes of changes in memory, of %d", most, littleMemory)
	}
	if grown := heap() - before; grown > heapLimit {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	verifyIsBounded(t, frugal)
	forkIsReadOnly(t, frugal)
}

// forkIsReadOnly opens a store of which daemons were killed. Fork f is read-only then, until the next
// opening, and all else goes on.
func forkIsReadOnly(t *testing.T, dir string) {
	t.Helper()
	for _, frugal := range []bool{true, false} {
		s, err := Open(dir, Options{Quiet: true, LowMemory: frugal, MemoryBytes: 4 * littleMemory})
		must.OK(t, err)
		createIn(t, s, live.MainView, fmt.Sprint("main", frugal))
		f, err := s.Main().Forks().Named("f")
		must.OK(t, err)
		_, err = s.Forest().Create(f.Root(), "new", live.NewNode{Mode: unix.S_IFREG})
		if readOnly := errs.KindOf(err) == errs.ReadOnly; readOnly != frugal {
			t.Errorf("frugal %v: a change in the fork: %v", frugal, err)
		}
		if _, err := s.Forest().Lookup(f.Root(), "file17"); err != nil {
			t.Errorf("a file of the fork cannot be read: %v", err)
		}
		for _, w := range []*Workspace{s.Main(), f} {
			if told := strings.Contains(w.Status().Health, "workspace f is read-only"); told != frugal {
				t.Errorf("frugal %v: the health of %s is %q", frugal, w.Name(), w.Status().Health)
			}
		}
		if frugal && s.mem.PeakUsedBytes() > littleMemory+littleMemory/4 {
			t.Errorf("recovery had %d bytes of changes in memory", s.mem.PeakUsedBytes())
		}
		must.OK(t, s.Close())
	}
}

// verifyIsBounded verifies a store that is not mounted and whose journal takes too much memory.
func verifyIsBounded(t *testing.T, dir string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "store")
	must.CopyStore(t, copied, dir)
	if _, err := Open(copied, Options{Quiet: true, ReadOnly: true, MemoryBytes: littleMemory}); !errors.Is(err, engine.ErrReplayMemory) {
		t.Errorf("a store that can be read only takes more memory than it may: %v", err)
	}
	r, err := Check(t.Context(), copied, Options{MemoryBytes: littleMemory}, nil)
	if must.OK(t, err); !r.OK() {
		t.Errorf("damage: %+v", r)
	}
}
