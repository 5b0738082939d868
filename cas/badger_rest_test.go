package cas

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestIndexRests: a database at rest is read as ever, is nobody else's, and wakes up
// for a change, also while somebody reads.
func TestIndexRests(t *testing.T) {
	dir := t.TempDir()
	o := memOptions(t, vfstest.NewMem())
	s := openTest(t, dir, o)
	rest := func() {
		t.Helper()
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		s.index.db.restNow()
		if s.index.db.open.now != nil {
			t.Fatal("it does not rest")
		}
	}
	var blobs [][]byte
	for i := range uint64(5) {
		blobs = append(blobs, blob(i, 1000))
		put(t, s, blobs[i])
		rest()
		for _, b := range blobs {
			wantObject(t, s, b)
		}
		verifyClean(t, s)
		if _, err := Open(dir, o); !errors.Is(err, ErrInUse) {
			t.Fatalf("a second one opens: %v", err)
		}
	}
	s.index.db.restNow()
	reading := s.index.db.open.now
	if reading == nil || reading.writes {
		t.Fatal("one that was just read is closed, or open for writing")
	}
	err := s.index.db.each([]byte{keyObject}, false, func(k, _ []byte) error {
		put(t, s, blob(100, 1000))
		if err := s.flush(); err != nil { // wakes it up
			return err
		}
		if _, ok, err := s.index.db.object(Hash(k[1:])); err != nil || !ok {
			t.Errorf("object: %v, %v", ok, err)
		}
		s.index.db.restNow()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reading.retired || reading.uses != 0 {
		t.Errorf("%+v is still open", reading)
	}
	rest()
	wantObject(t, s, blobs[0])
	for range 2 {
		s.index.db.restNow()
	}
	if s.index.db.open.now != nil {
		t.Error("one that nobody reads is open")
	}
	collectAllBut(t, s, blobs[:2])
	wantMissing(t, s, Sum(blobs[4]))
	rest()
	closeTest(t, s)
	s = openTest(t, dir, o)
	wantObject(t, s, blobs[1])
	wantMissing(t, s, Sum(blobs[4]))
	verifyClean(t, s)
}

// TestCloseMergesTheIndex: after a gc that wrote everything anew the index has each
// place once.
func TestCloseMergesTheIndex(t *testing.T) {
	dir := t.TempDir()
	size := func() (n int64) {
		infos, err := vfs.OS.ReadDir(filepath.Join(dir, "index"))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range infos {
			n += i.Allocated
		}
		return n
	}
	s := openTest(t, dir, Options{})
	var blobs [][]byte
	for i := range uint64(3000) {
		blobs = append(blobs, blob(2*i+1, 1000))
		put(t, s, blobs[i])
	}
	closeTest(t, s)
	before := size()
	s = openTest(t, dir, Options{})
	if res := collectAllBut(t, s, blobs); res.Rewritten == 0 {
		t.Fatalf("nothing is written anew: %+v", res)
	}
	closeTest(t, s)
	if after := size(); after > before+16<<10 {
		t.Errorf("an index of %d bytes has %d after a gc", before, after)
	}
	s = openTest(t, dir, Options{})
	for _, b := range blobs {
		wantObject(t, s, b)
	}
	verifyClean(t, s)
}
