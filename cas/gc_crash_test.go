package cas

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestInterruptedGC fails or kills a collection at every operation of the disk.
func TestInterruptedGC(t *testing.T) {
	var keep, drop [][]byte
	content := func(i int) []byte { // every fourth compresses
		if i%4 == 0 {
			return blob(uint64(2*i+1), 9000)
		}
		return blob(uint64(2*i), 9000)
	}
	for i := range 90 {
		b := content(i)
		if i < 30 && i%3 == 0 || i%13 == 0 {
			keep = append(keep, b)
		} else {
			drop = append(drop, b)
		}
	}
	again := false
	for i := int64(0); ; i += 1 + i/sample[int64](2, 6) {
		again = !again
		fsys, dir := vfstest.NewMem(), t.TempDir()
		o := memOptions(t, fsys)
		s := openTest(t, dir, o)
		for j := range 90 {
			put(t, s, content(j))
		}
		for range 5 {
			commit(t, s, MetaOp{Key: "long", Value: blob(0, 400_000)})
		}
		commit(t, s, MetaOp{Key: "k", Value: []byte("v")}, MetaOp{Key: "long", Delete: true})
		closeTest(t, s)

		faulty := vfstest.FailAt(fsys, i, syscall.EIO)
		o.FS = faulty
		s, err := Open(dir, o)
		if err == nil {
			_, err = s.GC(context.Background(), false, nil, func(k func(Hash) bool) error {
				for _, b := range keep {
					k(Sum(b))
				}
				return nil
			}, nil)
			for _, b := range keep {
				wantObjectRetry(t, s, b, faulty)
			}
		}
		if err != nil && s != nil && s.failure.err() == nil && again {
			// Another one in the same life of the store ends the work.
			collectAllBut(t, s, keep)
			for _, p := range s.packs.all() {
				if p.hasGarbage || p.sweeping {
					t.Errorf("operation %d: pack %s is still to be swept", i, p.name())
				}
			}
			for h := range records(t, s) {
				if _, err := s.Get(h, nil); err != nil {
					t.Errorf("operation %d: the packs still hold %s", i, h)
				}
			}
		}
		// What a kill leaves of the packs and of the index.
		rnd := rand.New(rand.NewPCG(uint64(i), 0))
		index := map[bool]string{true: copyDir(t, o.indexDir), false: filepath.Join(memDir(t), "index")}
		if s != nil {
			_ = s.Close() // may report the failure once more
		}
		for withIndex, indexDir := range index {
			c := openTest(t, dir, Options{FS: fsys.CrashClone(0.5, rnd), PackSize: o.PackSize, indexDir: indexDir})
			for _, b := range keep {
				wantObject(t, c, b)
			}
			wantMeta(t, c, "k", "v")
			wantMeta(t, c, "long", "")
			verifyClean(t, c)
			collectAllBut(t, c, keep)
			for _, b := range keep {
				wantObject(t, c, b)
			}
			for _, b := range drop {
				if _, err := c.Get(Sum(b), nil); !errors.Is(err, ErrNotFound) {
					t.Fatalf("operation %d, index %v: garbage stayed: %v", i, withIndex, err)
				}
			}
			verifyClean(t, c)
			if n := packBytes(t, c); n > 700_000 {
				t.Errorf("operation %d, index %v: packs take %d bytes", i, withIndex, n)
			}
			closeTest(t, c)
		}
		if t.Failed() {
			t.Fatalf("operation %d", i)
		}
		if !faulty.Failed() {
			must.OK(t, err)
			return
		}
	}
}

// wantObjectRetry allows the failure that the test itself makes.
func wantObjectRetry(t *testing.T, s *Store, b []byte, faulty *vfstest.Faulty) {
	t.Helper()
	before := faulty.Failed()
	if _, err := s.Get(Sum(b), nil); err != nil && faulty.Failed() == before {
		t.Fatal(err)
	}
}

// removeHook calls a function before a file is removed.
type removeHook struct {
	vfs.FS
	before func(name string)
}

func (r *removeHook) Remove(name string) error {
	r.before(name)
	return r.FS.Remove(name)
}

// TestMovedObjectsAreDurableFirst cuts the power just before an emptied pack is
// removed, and just after.
func TestMovedObjectsAreDurableFirst(t *testing.T) {
	fsys, dir := vfstest.NewMem(), t.TempDir()
	hook := &removeHook{FS: fsys}
	o := memOptions(t, hook)
	s := openTest(t, dir, o)
	var keep [][]byte
	for i := range 100 {
		b := blob(uint64(2*i), 9000)
		put(t, s, b)
		if i%8 == 0 {
			keep = append(keep, b)
		}
	}
	removed := 0
	hook.before = func(name string) {
		removed++
		for _, gone := range []bool{false, true} {
			c := fsys.CrashClone(0, rand.New(rand.NewPCG(0, 0)))
			if gone {
				if err := c.Remove(name); err != nil {
					t.Error(err)
				}
			}
			s := openTest(t, dir, Options{FS: c, indexDir: copyDir(t, o.indexDir)})
			for _, b := range keep {
				wantObject(t, s, b)
			}
			verifyClean(t, s)
			collectAllBut(t, s, keep)
			if s.packs.get(packID(t, name)) != nil {
				t.Error("a pack that was to be removed stays")
			}
			closeTest(t, s)
		}
	}
	if res := collectAllBut(t, s, keep); res.RemovedObjects == 0 || removed == 0 {
		t.Errorf("%d removed, result %+v", removed, res)
	}
}

func packID(t *testing.T, path string) uint64 {
	t.Helper()
	id, ok := parsePackName(filepath.Base(path))
	if !ok {
		t.Fatalf("%s is no pack", path)
	}
	return id
}
