package cas

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestAnyFilesOfTheIndexLost: a kill may hit while an old index is removed, and
// a disk may lose any file. Whatever is left must not be taken for the whole.
func TestAnyFilesOfTheIndexLost(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 1))
	fsys, dir := vfstest.NewMem(), t.TempDir()
	o := memOptions(t, fsys)
	var live, dead [][]byte
	// Every life ends with a kill, so that the tables and the log of the index
	// each hold a part of it.
	for life := range 4 {
		s := openTest(t, dir, o)
		for i := range 30 {
			b := blob(uint64(1000*life+i), 100+rnd.IntN(3000))
			put(t, s, b)
			if i%3 == 0 {
				dead = append(dead, b)
			} else {
				live = append(live, b)
			}
		}
		commit(t, s, MetaOp{Key: fmt.Sprintf("k%d", life), Value: []byte("x")})
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		if life%2 == 1 {
			collectAllBut(t, s, live)
		}
		o.indexDir = copyDir(t, o.indexDir)
		o.FS = fsys.CrashClone(1, rnd)
		fsys = o.FS.(*vfstest.Mem)
		s.abandon()
	}
	all, err := os.ReadDir(o.indexDir)
	if err != nil {
		t.Fatal(err)
	}
	try := func(name string, lost func(i int) bool) {
		t.Run(name, func(t *testing.T) {
			o := o
			o.FS = fsys.CrashClone(1, rnd)
			o.indexDir = copyDir(t, o.indexDir)
			gone := ""
			for i, e := range all {
				if lost(i) {
					gone += " " + e.Name()
					if err := os.Remove(filepath.Join(o.indexDir, e.Name())); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Log("lost:" + gone)
			s := openTest(t, dir, o)
			for _, b := range live {
				wantObject(t, s, b)
			}
			for life := range 4 {
				wantMeta(t, s, fmt.Sprintf("k%d", life), "x")
			}
			for _, b := range dead {
				put(t, s, b)
				wantObject(t, s, b)
			}
			verifyMended(t, s)
			verifyClean(t, s)
			closeTest(t, s)
		})
	}
	for i, e := range all {
		try(e.Name(), func(k int) bool { return k == i })
	}
	for n := range sample(8, 40) {
		set := rnd.Uint64()
		try(fmt.Sprint(n), func(k int) bool { return set>>k&1 == 1 })
	}
}

// TestCloseOnADeadDisk: Badger tries for ever to write a table. A store whose index
// takes no more writes can be closed all the same.
func TestCloseOnADeadDisk(t *testing.T) {
	fsys, dir := vfstest.NewMem(), t.TempDir()
	o := memOptions(t, fsys)
	s := openTest(t, dir, o)
	b := blob(1, 1000)
	put(t, s, b)
	commit(t, s, MetaOp{Key: "k", Value: []byte("x")})
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.indexDir); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if !errors.Is(err, ErrStuck) {
			t.Errorf("closing: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("closing takes for ever")
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
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		wantObject(t, s, blob(1, 1000))
		r, err := s.Verify(t.Context(), VerifyOptions{}, nil)
		if err != nil || r.Damaged == 0 {
			t.Errorf("%s: %+v, %v", lost, r, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTablesCutInUse: a table that is cut under an open store ends nothing but what
// needs it, and the next opening makes the index anew.
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
		if err := os.Truncate(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Get(Sum(blob(1, 1000)), nil); err == nil {
		t.Error("an object is found in what is gone")
	}
	wantMeta(t, s, "k", "x")
	put(t, s, blob(1, 1000)) // stored again
	wantObject(t, s, blob(1, 1000))
	if r, err := s.Verify(t.Context(), VerifyOptions{}, nil); err == nil && r.Damaged == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := s.Close(); err != nil && !errors.Is(err, ErrStuck) {
		t.Error(err)
	}
	again := t.TempDir() // Badger may still hold its lock, until the process ends
	if err := os.CopyFS(again, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, again, Options{})
	wantObject(t, s, blob(1, 1000))
	wantMeta(t, s, "k", "x")
}
