package cas

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/cas/manifest"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// records counts the object records in all packs by their hash.
func records(t *testing.T, s *Store) map[Hash]int {
	t.Helper()
	n := map[Hash]int{}
	for _, p := range s.packs.all() {
		f, err := s.packs.acquireFile(p)
		must.OK(t, err)
		defer s.packs.releaseFile(p)
		sc := &scan{r: f, id: p.id, start: packHeaderSize, end: p.end, readBodies: true}
		err = sc.run(context.Background(), func(it *item) error {
			if it.damage != "" {
				t.Errorf("pack %s at %d: %s", p.name(), it.off, it.damage)
			}
			if it.isObject() {
				n[it.hash]++
			}
			return nil
		})
		must.OK(t, err)
	}
	return n
}

func TestConcurrentPutsStoreOnce(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
	const objects, workers = 300, 8
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range objects {
				b := blob(uint64(i), 500+i*3)
				if _, err := s.Put(KindData, b); err != nil {
					t.Error(err)
				}
				got, err := s.Get(Sum(b), nil)
				if err != nil || Sum(got) != Sum(b) {
					t.Errorf("object %d cannot be read at once: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	once := func() {
		t.Helper()
		all := records(t, s)
		if len(all) != objects {
			t.Errorf("%d objects are stored, want %d", len(all), objects)
		}
		for h, n := range all {
			if n != 1 {
				t.Errorf("object %s is stored %d times", h, n)
			}
		}
	}
	once()
	// The same again after a flush, when the index answers.
	must.OK(t, s.index.flush())
	for i := range objects {
		b := blob(uint64(i), 500+i*3)
		put(t, s, b)
		if ok, err := s.Has(Sum(b)); !ok || err != nil {
			t.Fatalf("has: %v %v", ok, err)
		}
	}
	once()
	if st := s.Stats(); st.Objects != objects {
		t.Errorf("stats %+v", st)
	}
}

func TestPutCompressesWhatPays(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
	put(t, s, blob(0, 100_000))
	noise := s.Stats().StoredBytes
	if noise < 100_000 || noise > 100_000+headerSize+recordAlign {
		t.Errorf("100000 bytes of noise take %d", noise)
	}
	put(t, s, blob(1, 100_000))
	if text := s.Stats().StoredBytes - noise; text > 50_000 {
		t.Errorf("100000 bytes of text take %d", text)
	}
}

func TestLimits(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
	if _, err := s.Put(KindData, make([]byte, MaxObject+1)); err == nil {
		t.Error("an object over the limit was stored")
	}
	if _, err := s.Put(Kind(9), []byte("x")); err == nil {
		t.Error("an unknown kind was stored")
	}
	b := blob(0, MaxObject)
	put(t, s, b)
	wantObject(t, s, b)
	for _, op := range []MetaOp{{Key: ""}, {Key: "\x00gc"}, {Key: string(make([]byte, manifest.MaxKey+1))},
		{Key: "k", Value: make([]byte, manifest.MaxValue+1)}} {
		if err := s.Commit(op); err == nil {
			t.Errorf("commit took key %.20q with %d bytes", op.Key, len(op.Value))
		}
	}
	if _, err := s.Get(Hash{1}, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("get of a missing object: %v", err)
	}
	closeTest(t, s)
	if _, err := s.Get(Hash{1}, nil); !errors.Is(err, errs.Closed) {
		t.Errorf("get after close: %v", err)
	}
	if err := s.Close(); !errors.Is(err, errs.Closed) {
		t.Errorf("second close: %v", err)
	}
}

// panickyFS is a disk whose writes panic while it is broken.
type panickyFS struct {
	vfs.FS
	broken *bool
}

type panickyFile struct {
	vfs.File
	broken *bool
}

func (f panickyFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	return panickyFile{file, f.broken}, err
}

func (f panickyFile) WriteAt(b []byte, off int64) (int, error) {
	if *f.broken {
		panic("a fault below")
	}
	return f.File.WriteAt(b, off)
}

// TestPutPanics: no process waits for a Put that panicked, and the object can be put
// later.
func TestPutPanics(t *testing.T) {
	broken := false
	s := openTest(t, t.TempDir(), Options{FS: panickyFS{vfs.OS, &broken}})
	b := blob(1, 1000)
	put(t, s, blob(2, 1000))
	broken = true
	if _, err := s.Put(KindData, b); err == nil {
		t.Fatal("stored by a disk that panics")
	}
	broken = false
	put(t, s, b)
	wantObject(t, s, b)
}
