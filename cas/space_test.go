package cas

import (
	"errors"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
)

const mib = 1 << 20

// TestFullDisk fills the disk, goes on reading, deletes, collects, and writes
// again; also when the store is opened on the full disk.
func TestFullDisk(t *testing.T) {
	fsys, dir := vfs.NewMem(), t.TempDir()
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
	if err != nil {
		t.Fatal(err)
	}
	fill := func() {
		free, err := fsys.Free("/")
		if err != nil {
			t.Fatal(err)
		}
		size, _ := other.Size()
		if err := other.Allocate(size, free); err != nil {
			t.Fatal(err)
		}
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
	if err := fsys.Remove("/other"); err != nil {
		t.Fatal(err)
	}
	closeTest(t, s)
	s = openTest(t, dir, o)
	put(t, s, blob(99, 300_000))
	check()
	verifyClean(t, s)
	if _, err := fsys.Stat(s.space.reserve); err != nil {
		t.Errorf("no reserve once there is space again: %v", err)
	}
}

func TestHeadroomGrowsWithTheIndex(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfs.NewMem()))
	small := s.Headroom()
	s.space.measured(100 * mib)
	if got := s.Headroom(); got != headroom+100*mib || got <= small {
		t.Errorf("headroom %d, then %d", small, got)
	}
	s.space.measured(1 << 40)
	if got := s.Headroom(); got != headroom+headroomMax {
		t.Errorf("headroom of a huge index: %d", got)
	}
}
