package cas

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestCloseOnADeadDisk: Badger tries forever to write a table. A store whose index
// takes no more writes can be closed all the same.
func TestCloseOnADeadDisk(t *testing.T) {
	fsys, dir := vfstest.NewMem(), t.TempDir()
	o := memOptions(t, fsys)
	s := openTest(t, dir, o)
	b := blob(1, 1000)
	put(t, s, b)
	commit(t, s, MetaOp{Key: "k", Value: []byte("x")})
	must.OK(t, s.index.flush())
	must.OK(t, os.RemoveAll(o.indexDir))
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	if err := await.Receive(t, "closing", closed); !errors.Is(err, ErrStuck) {
		t.Errorf("closing: %v", err)
	}
	if err := os.MkdirAll(o.indexDir, 0o700); err != nil { // for Badger to come to an end
		t.Fatal(err)
	}
	o.indexDir = filepath.Join(t.TempDir(), "index")
	s = openTest(t, dir, o)
	wantObject(t, s, b)
	wantMeta(t, s, "k", "x")
	closeTest(t, s)
}

// TestFilesLostInUse: what was removed from under an open store can still be read,
// and Verify misses it all the same.
func TestFilesLostInUse(t *testing.T) {
	for _, lost := range []string{"packs/*.pack", "manifest", "manifest.copy"} {
		dir := t.TempDir()
		s := openTest(t, dir, Options{})
		put(t, s, blob(1, 1000))
		commit(t, s, MetaOp{Key: "k", Value: []byte("x")})
		closeTest(t, s)
		s = openTest(t, dir, Options{})
		verifyClean(t, s)
		names, err := filepath.Glob(filepath.Join(dir, lost))
		if err != nil || len(names) == 0 {
			t.Fatal(lost, names, err)
		}
		for _, name := range names {
			must.OK(t, os.Remove(name))
		}
		wantObject(t, s, blob(1, 1000))
		damaged := false
		_, err = s.Verify(t.Context(), nil, func(Damage) { damaged = true })
		if err != nil || !damaged {
			t.Errorf("%s: %v, %v", lost, damaged, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTablesCutInUse: a table that is cut under an open store ends nothing but what
// needs it, and the next opening makes the index again.
func TestTablesCutInUse(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, Options{})
	put(t, s, blob(1, 1000))
	commit(t, s, MetaOp{Key: "k", Value: []byte("x")})
	closeTest(t, s)
	s = openTest(t, dir, Options{})
	names, err := filepath.Glob(filepath.Join(dir, "index", "*.sst"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		must.OK(t, os.Truncate(name, 0))
	}
	if _, err := s.Get(Sum(blob(1, 1000)), nil); err == nil {
		t.Error("an object is found in what is gone")
	}
	wantMeta(t, s, "k", "x")
	put(t, s, blob(1, 1000)) // stored again
	wantObject(t, s, blob(1, 1000))
	damaged := false
	if _, err := s.Verify(t.Context(), nil, func(Damage) { damaged = true }); err == nil && !damaged {
		t.Errorf("%+v, %v", damaged, err)
	}
	if err := s.Close(); err != nil && !errors.Is(err, ErrStuck) {
		t.Error(err)
	}
	again := t.TempDir() // Badger may still hold its lock, until the process ends
	must.CopyStore(t, again, dir)
	s = openTest(t, again, Options{})
	wantObject(t, s, blob(1, 1000))
	wantMeta(t, s, "k", "x")
}
