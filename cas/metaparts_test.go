package cas

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/cas/vfs"
)

// TestLargeCommit: a commit may have more than one record holds.
func TestLargeCommit(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, Options{})
	var ops []MetaOp
	for i := range 12 {
		ops = append(ops, MetaOp{Key: fmt.Sprint("k", i), Value: blob(uint64(i), 2<<20)})
	}
	commit(t, s, ops...)
	commit(t, s, MetaOp{Key: "k3", Delete: true})
	for range 2 {
		for i, op := range ops {
			if i != 3 {
				wantMeta(t, s, op.Key, string(op.Value))
			}
		}
		wantMeta(t, s, "k3", "")
		verifyClean(t, s)
		closeTest(t, s)
		if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, dir, Options{})
	}
}

// partsStore has a commit of one record, and one of several, the last.
func partsStore(t *testing.T) (fsys *vfs.Mem, dir string, o Options, meta string) {
	t.Helper()
	fsys, dir = vfs.NewMem(), t.TempDir()
	o = memOptions(t, fsys)
	o.noCopy = true
	s := openTest(t, dir, o)
	commit(t, s, MetaOp{Key: "a", Value: []byte("1")})
	var ops []MetaOp
	for i := range 6 {
		ops = append(ops, MetaOp{Key: fmt.Sprint("k", i), Value: blob(uint64(2*i), 300)})
	}
	commit(t, s, ops...)
	meta = s.packs.all(roleMeta)[0].path
	closeTest(t, s)
	return fsys, dir, o, meta
}

func wantParts(t *testing.T, s *Store, there bool) {
	t.Helper()
	wantMeta(t, s, "a", "1")
	for i := range 6 {
		want := ""
		if there {
			want = string(blob(uint64(2*i), 300))
		}
		wantMeta(t, s, fmt.Sprint("k", i), want)
	}
}

// TestPartsCutAnywhere: what a kill or a power cut leaves of a commit of several
// records is nothing.
func TestPartsCutAnywhere(t *testing.T) {
	fsys, _, _, meta := partsStore(t)
	whole, err := vfs.ReadFile(fsys, meta)
	if err != nil {
		t.Fatal(err)
	}
	ranges := recordRanges(t, fsys, meta)
	if len(ranges) != 2+6 {
		t.Fatalf("%d records", len(ranges)-1)
	}
	var cuts []int64
	for _, r := range ranges[2:] {
		cuts = append(cuts, r[0], r[0]+40, r[0]+100, r[1]-64)
	}
	for _, cut := range append(cuts, int64(len(whole))) {
		fsys, dir, o, meta := partsStore(t)
		f, err := fsys.OpenFile(meta, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(cut); err != nil {
			t.Fatal(err)
		}
		o.indexDir = filepath.Join(memDir(t), "index")
		all := cut == int64(len(whole))
		s := openTest(t, dir, o)
		wantParts(t, s, all)
		verifyClean(t, s)
		commit(t, s, MetaOp{Key: "c", Value: []byte("3")})
		closeTest(t, s)
		o.indexDir = filepath.Join(memDir(t), "index")
		s = openTest(t, dir, o)
		wantParts(t, s, all)
		wantMeta(t, s, "c", "3")
		verifyClean(t, s)
		if t.Failed() {
			t.Fatalf("cut at %d", cut)
		}
	}
}

// TestDamagedPart: without one of its parts a commit does not count, and it is kept
// for a repair.
func TestDamagedPart(t *testing.T) {
	for i := 2; i < 2+6; i++ {
		fsys, dir, o, meta := partsStore(t)
		r := recordRanges(t, fsys, meta)[i]
		flip(t, fsys, meta, r[0]+headerSize+70, 3)
		o.indexDir = filepath.Join(memDir(t), "index")
		for range 2 {
			s := openTest(t, dir, o)
			wantParts(t, s, false)
			if len(findings(t, s)) == 0 {
				t.Error("nothing is found")
			}
			closeTest(t, s)
		}
		res, err := Repair(dir, o)
		if err != nil || res.Mended != 1 {
			t.Fatal(res, err)
		}
		s := openTest(t, dir, o)
		wantParts(t, s, true)
		verifyClean(t, s)
		closeTest(t, s)
	}
}

// TestLostPart: what a repair cannot mend of a commit takes the rest of it along.
func TestLostPart(t *testing.T) {
	for i := 2; i < 2+6; i++ {
		fsys, dir, o, meta := partsStore(t)
		r := recordRanges(t, fsys, meta)[i]
		change(t, fsys, meta, r[0]+headerSize+70, func(b []byte) { clear(b) }, 50)
		o.indexDir = filepath.Join(memDir(t), "index")
		res, err := Repair(dir, o)
		if err != nil || res.Quarantined == 0 {
			t.Fatal(res, err)
		}
		for range 2 {
			s := openTest(t, dir, o)
			wantParts(t, s, false)
			verifyClean(t, s)
			commit(t, s, MetaOp{Key: "c", Value: []byte("3")})
			wantMeta(t, s, "c", "3")
			closeTest(t, s)
			o.indexDir = filepath.Join(memDir(t), "index")
		}
	}
}
