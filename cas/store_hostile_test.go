package cas

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// hostileStore makes a store on the real disk with an object, some metadata, and
// damage for a repair to set aside.
func hostileStore(t *testing.T) (dir string, b []byte) {
	t.Helper()
	dir, b = filepath.Join(t.TempDir(), "store"), blob(1, 5000)
	s := openTest(t, dir, Options{})
	put(t, s, b)
	put(t, s, blob(2, 5000))
	commit(t, s, MetaOp{Key: "k", Value: []byte("v")})
	closeTest(t, s)
	return dir, b
}

// TestNothingIsDoneThroughLinks: whatever of a store is a link that leads out of it, or
// no file at all, nothing outside is read or changed, and no process waits.
func TestNothingIsDoneThroughLinks(t *testing.T) {
	for _, what := range []string{"packs", "packs/*.pack", "packs/reserve", "manifest", "manifest.copy", "manifest.tmp",
		"index", "index/MANIFEST", "index/OPENING", "index/*.sst", "index.old", "quarantine"} {
		for _, fifo := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				dir, _ := hostileStore(t)
				outside := filepath.Join(t.TempDir(), "outside")
				names, err := filepath.Glob(filepath.Join(dir, what))
				must.OK(t, err)
				if len(names) == 0 {
					names = []string{filepath.Join(dir, what)}
				}
				if err = os.Rename(names[0], outside); errors.Is(err, os.ErrNotExist) {
					err = os.WriteFile(outside, []byte("theirs"), 0o600)
				}
				must.OK(t, err)
				if fifo {
					err = unix.Mkfifo(names[0], 0o600)
				} else {
					err = os.Symlink(outside, names[0])
				}
				must.OK(t, err)
				before := contents(t, outside)
				done := make(chan struct{})
				go func() {
					defer close(done)
					useHostile(t, dir)
				}()
				await.Receive(t, "the end of it", done)
				if after := contents(t, outside); after != before {
					t.Error("something outside of the store was changed")
				}
			})
		}
	}
}

// useHostile does everything with a store that may refuse to open.
func useHostile(t *testing.T, dir string) {
	for range 2 {
		s, err := Open(dir, Options{})
		if err == nil {
			_, _ = s.Put(KindData, blob(3, 3000))
			_ = s.Commit(MetaOp{Key: "later", Value: []byte("x")})
			_, _ = s.Verify(t.Context(), nil, func(Damage) {})
			_ = s.Close()
		}
		_, _ = Repair(dir, Options{})
	}
}

// contents is all that is in a file or directory, and that its names are the same.
func contents(t *testing.T, name string) string {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(name, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			all = append(all, path...)
			return err
		}
		b, err := os.ReadFile(path)
		all = append(append(all, path...), b...)
		return err
	})
	must.OK(t, err)
	return Sum(all).String()
}

// TestIndexEntriesAreClaims: an index that another party made can say nothing that
// takes memory or serves other bytes, and is rebuilt.
func TestIndexEntriesAreClaims(t *testing.T) {
	good := loc{pack: 1 << 32, off: packHeaderSize, plainLen: 5000, storedLen: 5000, kind: KindData}
	for name, change := range map[string]func(l *loc){
		"plain":      func(l *loc) { l.plainLen = 1<<32 - 1; l.flags = flagZstd },
		"stored":     func(l *loc) { l.storedLen = 1<<32 - 1; l.flags = flagZstd },
		"both":       func(l *loc) { l.plainLen, l.storedLen = 1<<32-1, 1<<32-1 },
		"beyond":     func(l *loc) { l.off = 1 << 40 },
		"before":     func(l *loc) { l.off = -64 },
		"kind":       func(l *loc) { l.kind = 77 },
		"flags":      func(l *loc) { l.flags = 0xff },
		"elsewhere":  func(l *loc) { l.off += 64 },
		"other pack": func(l *loc) { l.pack++ },
	} {
		t.Run(name, func(t *testing.T) {
			dir, b := hostileStore(t)
			x, err := index.Open(filepath.Join(dir, "index"), slog.New(slog.DiscardHandler), false)
			must.OK(t, err)
			l := good
			change(&l)
			w := x.Batch(nil)
			w.Put(objectKey(Sum(b)), encodeLoc(l))
			must.OK(t, w.Commit())
			must.OK(t, x.Close())
			s := openTest(t, dir, Options{})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if got, err := s.Get(Sum(b), nil); err == nil && Sum(got) != Sum(b) || errors.Is(err, ErrNotFound) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
				t.Errorf("it took %d MiB", n>>20)
			}
			put(t, s, b)
			wantObject(t, s, b)
			closeTest(t, s)
			s = openTest(t, dir, Options{})
			wantObject(t, s, b)
		})
	}
}

// TestLargePackIsRefused: a sparse file costs its sender nothing, and a reader that
// reads it hours.
func TestLargePackIsRefused(t *testing.T) {
	dir, _ := hostileStore(t)
	names, err := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	must.OK(t, os.Truncate(names[0], 1<<40))
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("open: %v", err)
	}
	for _, name := range []string{"manifest", "manifest.copy"} {
		must.OK(t, os.Truncate(filepath.Join(dir, name), 1<<40))
	}
	must.OK(t, os.Remove(names[0]))
	if s, err := Open(dir, Options{}); err == nil {
		_ = s.Close()
		t.Error("a manifest of a terabyte is read")
	}
}
