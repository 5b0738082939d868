package cas

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestRepairOfHeaders: what a header says is in the name of the file, too.
func TestRepairOfHeaders(t *testing.T) {
	fsys, dir, o, blobs := damageStore(t)
	packs := packFiles(t, fsys, dir)
	for i, path := range packs {
		flip(t, fsys, path, int64(i*29)%packHeaderSize, i%8)
	}
	res, err := Repair(dir, o)
	must.OK(t, err)
	if res.Mended != int64(len(packs)) || res.Quarantined != 0 || len(res.Damage) != len(packs) {
		t.Errorf("%d wrong bits, result %+v", len(packs), res)
	}
	s := openTest(t, dir, o)
	for _, b := range blobs {
		wantObject(t, s, b)
	}
	wantMeta(t, s, "a", "second")
	wantMeta(t, s, "b", string(blob(5, 300)))
	verifyClean(t, s)
}

func TestRepairQuarantinesTheRest(t *testing.T) {
	fsys, dir, o, blobs := damageStore(t)
	var victim string
	for _, path := range packFiles(t, fsys, dir) {
		if filepath.Ext(path) == ".pack" {
			victim = path
		}
	}
	// One body, one header and the end.
	ranges := recordRanges(t, fsys, victim)
	last := ranges[len(ranges)-1]
	zero := func(b []byte) { clear(b[:len(b)/2]); b[len(b)-1] ^= 0xff }
	change(t, fsys, victim, last[0]+headerSize+100, zero, 50)
	bigBody := ranges[len(ranges)-3]
	change(t, fsys, victim, bigBody[0], zero, headerSize)
	res, err := Repair(dir, o)
	must.OK(t, err)
	if res.Quarantined != 2 || res.Mended != 0 {
		t.Errorf("result %+v", res)
	}
	infos, err := fsys.ReadDir(filepath.Join(dir, "quarantine"))
	if err != nil || len(infos) != 2 {
		t.Errorf("quarantine: %+v %v", infos, err)
	}
	s := openTest(t, dir, o)
	verifyClean(t, s)
	missing := 0
	for _, b := range blobs {
		_, err := s.Get(Sum(b), nil)
		if errors.Is(err, ErrNotFound) {
			missing++
			put(t, s, b)
			err = nil
		}
		if err != nil {
			t.Error(err)
		}
		wantObject(t, s, b)
	}
	if missing != 2 {
		t.Errorf("%d objects missing, want 2", missing)
	}
	verifyClean(t, s)
}

// TestInterruptedRepair fails a repair at every operation of the disk.
func TestInterruptedRepair(t *testing.T) {
	for i := int64(0); ; i += 1 + i/8 {
		fsys, dir, o, blobs := damageStore(t)
		path := packFiles(t, fsys, dir)[0]
		r := recordRanges(t, fsys, path)
		change(t, fsys, path, r[len(r)-1][0]+headerSize, func(b []byte) { clear(b) }, 64)
		f := o
		faulty := vfstest.FailAt(fsys, i, syscall.EIO)
		f.FS = faulty
		_, err := Repair(dir, f)
		if err == nil && faulty.Failed() && i > 2 {
			t.Logf("operation %d does not matter", i)
		}
		if _, err := Repair(dir, o); err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
		s := openTest(t, dir, o)
		wantMeta(t, s, "a", "second")
		wantMeta(t, s, "b", string(blob(5, 300)))
		missing := 0
		for _, b := range blobs {
			if _, err := s.Get(Sum(b), nil); errors.Is(err, ErrNotFound) {
				missing++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if missing != 1 {
			t.Errorf("operation %d: %d objects are missing, want 1", i, missing)
		}
		verifyClean(t, s)
		closeTest(t, s)
		if t.Failed() {
			t.Fatalf("operation %d", i)
		}
		if !faulty.Failed() {
			return
		}
	}
}

// TestMetadataLost: without a manifest neither opening nor repairing does anything.
func TestMetadataLost(t *testing.T) {
	fsys, dir, o, _ := damageStore(t)
	for _, name := range []string{"manifest", "manifest.copy"} {
		change(t, fsys, filepath.Join(dir, name), 0, func(b []byte) { clear(b) }, 70)
	}
	if s, err := Open(dir, o); !errors.Is(err, ErrLost) {
		t.Errorf("opened: %v, %v", s, err)
	}
	if _, err := Repair(dir, o); !errors.Is(err, ErrLost) {
		t.Errorf("repaired: %v", err)
	}
}

// TestIndexAndOneManifestLost: nothing is lost.
func TestIndexAndOneManifestLost(t *testing.T) {
	for _, name := range []string{"manifest", "manifest.copy"} {
		for _, closed := range []bool{true, false} {
			fsys, dir := vfstest.NewMem(), t.TempDir()
			o := memOptions(t, fsys)
			s := openTest(t, dir, o)
			b := blob(1, 5000)
			put(t, s, b)
			commit(t, s, MetaOp{Key: "a", Value: []byte("first")})
			collectAllBut(t, s, [][]byte{b})
			commit(t, s, MetaOp{Key: "a", Value: []byte("second")})
			if closed {
				closeTest(t, s)
			}
			after := Options{FS: fsys.CrashClone(1, rand.New(rand.NewPCG(0, 0))), PackSize: o.PackSize, indexDir: filepath.Join(memDir(t), "index")}
			must.OK(t, after.FS.Remove(filepath.Join(dir, name)))
			s = openTest(t, dir, after)
			verifyClean(t, s)
			wantObject(t, s, b)
			wantMeta(t, s, "a", "second")
		}
	}
}
