package cas

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/cas/vfs"
)

func TestRepairMendsSingleBits(t *testing.T) {
	fsys, dir, o, blobs := damageStore(t)
	n := 0
	for _, path := range packFiles(t, fsys, dir) {
		for i, r := range recordRanges(t, fsys, path) {
			off := r[0] + int64(i*29)%(r[1]-r[0])
			flip(t, fsys, path, off, i%8)
			n++
		}
	}
	res, err := Repair(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if res.Mended != int64(n) || res.Quarantined != 0 || len(res.Damage) != n {
		t.Errorf("%d wrong bits, result %+v", n, res)
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
	if err != nil {
		t.Fatal(err)
	}
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

func TestMetaSavedFromTheIndex(t *testing.T) {
	fsys, dir, o, _ := damageStore(t)
	for _, path := range packFiles(t, fsys, dir) {
		if filepath.Ext(path) == ".meta" {
			r := recordRanges(t, fsys, path)
			change(t, fsys, path, r[1][0]+headerSize, func(b []byte) { clear(b) }, 64)
		}
	}
	s := openTest(t, dir, o)
	if len(findings(t, s)) == 0 {
		t.Error("damaged metadata was not found")
	}
	closeTest(t, s)
	if _, err := Repair(dir, o); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir, o)
	wantMeta(t, s, "a", "second")
	wantMeta(t, s, "b", string(blob(5, 300)))
	verifyClean(t, s)
}

// TestInterruptedRepairLosesNoMetadata fails a repair at every operation of the
// disk, of a store where the index alone has some metadata.
func TestInterruptedRepairLosesNoMetadata(t *testing.T) {
	for i := int64(0); ; i++ {
		fsys, dir, o, _ := damageStore(t)
		for _, path := range packFiles(t, fsys, dir) {
			if filepath.Ext(path) == ".meta" {
				r := recordRanges(t, fsys, path)
				change(t, fsys, path, r[1][0]+headerSize, func(b []byte) { clear(b) }, 64)
			}
		}
		f := o
		faulty := vfs.FailAt(fsys, i, syscall.EIO)
		f.FS = faulty
		_, err := Repair(dir, f)
		if !faulty.Failed() {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if _, err := Repair(dir, o); err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
		s := openTest(t, dir, o)
		wantMeta(t, s, "a", "second")
		wantMeta(t, s, "b", string(blob(5, 300)))
		verifyClean(t, s)
		closeTest(t, s)
		if t.Failed() {
			t.Fatalf("operation %d", i)
		}
	}
}
