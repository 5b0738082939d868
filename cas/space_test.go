package cas

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

const mib = 1 << 20

// TestFullDisk fills the disk, goes on reading, deletes, collects, and writes
// again; also when the store is opened on the full disk.
func TestFullDisk(t *testing.T) {
	fsys, dir := vfstest.NewMem(), t.TempDir()
	fsys.SetCapacity(headroom + reserveSize + 6*mib)
	o := memOptions(t, fsys)
	s := openTest(t, dir, o)
	var blobs [][]byte
	var err error
	for i := 0; ; i++ {
		b := blob(uint64(2*i), 200_000)
		if _, err = s.Put(KindData, b); err != nil {
			break
		}
		blobs = append(blobs, b)
	}
	if !errors.Is(err, ErrNoSpace) {
		t.Fatalf("put on a full disk: %v", err)
	}
	if len(blobs) < 20 {
		t.Fatalf("only %d objects fit", len(blobs))
	}
	commit(t, s, MetaOp{Key: "k", Value: []byte("v")})
	// Others take what is left, to the last block.
	other, err := vfs.Create(fsys, "/other")
	must.OK(t, err)
	fill := func() {
		free, err := fsys.Free("/")
		must.OK(t, err)
		size, _ := other.Size()
		must.OK(t, other.Allocate(size, free))
	}
	fill()
	check := func() {
		t.Helper()
		for _, b := range blobs {
			wantObject(t, s, b)
		}
	}
	check()
	commit(t, s, MetaOp{Key: "k", Delete: true})
	closeTest(t, s)
	s = openTest(t, dir, o)
	wantMeta(t, s, "k", "")
	check()
	if _, err := s.Put(KindData, blob(99, 300_000)); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("put on a full disk: %v", err)
	}
	rest := blobs[len(blobs)-3:]
	res := collectAllBut(t, s, rest)
	if res.FreedBytes < 3*mib {
		t.Errorf("result %+v", res)
	}
	blobs = rest
	check()
	must.OK(t, fsys.Remove("/other"))
	closeTest(t, s)
	s = openTest(t, dir, o)
	put(t, s, blob(99, 300_000))
	check()
	verifyClean(t, s)
	if _, err := fsys.Stat(s.space.reserve); err != nil {
		t.Errorf("no reserve once there is space again: %v", err)
	}
}

// TestReserve has the reserve survive a kill, and come back when it is missing.
func TestReserve(t *testing.T) {
	dir := t.TempDir()
	o := Options{}
	reserve := func() int64 {
		t.Helper()
		i, err := vfs.OS.Stat(filepath.Join(dir, "packs", "reserve"))
		must.OK(t, err)
		if i.Allocated < i.Size {
			t.Errorf("of a reserve of %d bytes, %d are there", i.Size, i.Allocated)
		}
		return i.Size
	}
	s := openTest(t, dir, o)
	check := func(what string) {
		t.Helper()
		if got := reserve(); got != reserveSize {
			t.Errorf("%s: %d bytes", what, got)
		}
	}
	check("an empty store")
	s.closed.Store(true)
	s.abandon() // as a kill leaves it
	check("after a kill")
	s = openTest(t, dir, o)
	closeTest(t, s)
	must.OK(t, os.Remove(filepath.Join(dir, "packs", "reserve")))
	openTest(t, dir, o)
	check("missing")
}
