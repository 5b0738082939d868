package cas

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// packFiles returns the paths of all packs.
func packFiles(t testing.TB, fsys vfs.FS, dir string) []string {
	t.Helper()
	infos, err := fsys.ReadDir(filepath.Join(dir, "packs"))
	must.OK(t, err)
	var list []string
	for _, i := range infos {
		if _, ok := parsePackName(i.Name); ok {
			list = append(list, filepath.Join(dir, "packs", i.Name))
		}
	}
	return list
}

// packBytes is the disk that the packs occupy.
func packBytes(t testing.TB, s *Store) int64 {
	t.Helper()
	infos, err := s.fs.ReadDir(s.packs.dir)
	must.OK(t, err)
	n := int64(0)
	for _, i := range infos {
		if _, ok := parsePackName(i.Name); ok {
			n += i.Allocated
		}
	}
	return n
}

// change overwrites bytes of a file.
func change(t testing.TB, fsys vfs.FS, name string, off int64, fn func(b []byte), n int) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	must.OK(t, err)
	defer f.Close()
	b := make([]byte, n)
	must.OK(t, readExactly(f, b, off))
	fn(b)
	_, err = f.WriteAt(b, off)
	must.OK(t, err)
	must.OK(t, f.Sync())
}

func flip(t testing.TB, fsys vfs.FS, name string, off int64, bit int) {
	t.Helper()
	change(t, fsys, name, off, func(b []byte) { b[0] ^= 1 << bit }, 1)
}

func damages(t testing.TB, s *Store) []Damage {
	t.Helper()
	var list []Damage
	_, err := s.Verify(context.Background(), nil, func(d Damage) { list = append(list, d) })
	must.OK(t, err)
	return list
}

// damageStore makes a small store with objects, metadata and free space.
func damageStore(t *testing.T) (fsys *vfstest.Mem, dir string, o Options, blobs [][]byte) {
	t.Helper()
	fsys, dir = vfstest.NewMem(), t.TempDir()
	o = memOptions(t, fsys)
	s := openTest(t, dir, o)
	for i, n := range []int{0, 10, 64, 900, 700, 3000, 3000} {
		put(t, s, blob(uint64(1000+i), 100)) // becomes free space
		blobs = append(blobs, blob(uint64(i), n))
		put(t, s, blobs[i])
	}
	commit(t, s, MetaOp{Key: "a", Value: []byte("first")}, MetaOp{Key: "b", Value: blob(5, 300)})
	commit(t, s, MetaOp{Key: "a", Value: []byte("second")})
	collectAllBut(t, s, blobs)
	verifyClean(t, s)
	closeTest(t, s)
	return fsys, dir, o, blobs
}

func collectAllBut(t testing.TB, s *Store, blobs [][]byte) GCResult {
	t.Helper()
	res, err := s.GC(context.Background(), false, nil, func(keep func(Hash) bool) error {
		for _, b := range blobs {
			keep(Sum(b))
		}
		return nil
	}, nil)
	must.OK(t, err)
	return res
}

// recordRanges lists what in a pack must be intact: headers, bodies, padding, but
// not the inside of free records.
func recordRanges(t testing.TB, fsys vfs.FS, path string) (ranges [][2]int64) {
	t.Helper()
	id, _ := parsePackName(filepath.Base(path))
	f, err := vfs.Open(fsys, path)
	must.OK(t, err)
	defer f.Close()
	size, err := f.Size()
	must.OK(t, err)
	ranges = append(ranges, [2]int64{0, packHeaderSize})
	sc := &scan{r: f, id: id, start: packHeaderSize, end: size}
	must.OK(t, sc.run(context.Background(), func(it *item) error {
		end := it.off + it.length
		if it.kind == kindFree {
			end = it.off + headerSize
		}
		ranges = append(ranges, [2]int64{it.off, end})
		return nil
	}))
	return ranges
}

func TestEveryBitFlipIsFoundAndHarmsOneObject(t *testing.T) {
	fsys, dir, o, blobs := damageStore(t)
	s := openTest(t, dir, o)
	for _, path := range packFiles(t, fsys, dir) {
		for _, r := range recordRanges(t, fsys, path) {
			for off := r[0]; off < r[1]; off += sample[int64](61, 7) {
				flip(t, fsys, path, off, int(off%8))
				if len(damages(t, s)) == 0 {
					t.Errorf("%s: a wrong bit in byte %d was not found", filepath.Base(path), off)
				}
				lost := 0
				for _, b := range blobs {
					got, err := s.Get(Sum(b), nil)
					var de *Damage
					switch {
					case err == nil && string(got) != string(b):
						t.Fatalf("a wrong bit in byte %d of %s was served", off, path)
					case errors.As(err, &de):
						if !errors.Is(err, ErrDamaged) || de.Hash != Sum(b) {
							t.Errorf("error %v", err)
						}
						lost++
					case err != nil:
						t.Fatal(err)
					}
				}
				if lost > 1 {
					t.Errorf("one wrong bit cost %d objects", lost)
				}
				flip(t, fsys, path, off, int(off%8))
			}
		}
	}
	verifyClean(t, s)
}

func TestTruncatedPack(t *testing.T) {
	for _, whileOpen := range []bool{true, false} {
		for _, cut := range []int64{1, 40, 64, 121, 320, 1024, 3264, 3280} {
			t.Run(fmt.Sprint(whileOpen, cut), func(t *testing.T) {
				fsys, dir, o, blobs := damageStore(t)
				var s *Store
				if whileOpen {
					s = openTest(t, dir, o)
				}
				for _, path := range packFiles(t, fsys, dir) {
					f, err := fsys.OpenFile(path, os.O_RDWR, 0)
					must.OK(t, err)
					size, _ := f.Size()
					must.OK(t, f.Truncate(max(size-cut, 0)))
					f.Close()
				}
				if !whileOpen {
					s = openTest(t, dir, o)
				}
				// More room at the end must not cover up what is missing there.
				more := blob(99, 3000)
				if !whileOpen {
					put(t, s, more)
					commit(t, s)
				}
				lost := map[Hash]bool{}
				for _, b := range blobs {
					if _, err := s.Get(Sum(b), nil); errors.Is(err, ErrDamaged) {
						lost[Sum(b)] = true
					} else if err != nil {
						t.Fatal(err)
					}
				}
				if len(lost) == 0 && cut >= recordAlign { // less may be padding
					t.Fatal("nothing is damaged")
				}
				found := damages(t, s)
				if len(found) == 0 {
					t.Error("Verify found nothing")
				}
				for _, d := range found {
					delete(lost, d.Hash)
				}
				if len(lost) > 0 {
					t.Errorf("Verify missed %d objects", len(lost))
				}
				// Nor may later objects come to lie where the index has lost ones.
				put(t, s, blobs[len(blobs)-1])
				closeTest(t, s)
				s = openTest(t, dir, o)
				for i := range 20 {
					put(t, s, blob(uint64(200+2*i), 700))
				}
				for _, b := range blobs[:len(blobs)-1] {
					put(t, s, b)
					wantObject(t, s, b)
				}
				closeTest(t, s)
				_, err := Repair(dir, o)
				must.OK(t, err)
				s = openTest(t, dir, o)
				verifyClean(t, s)
				for _, b := range blobs {
					put(t, s, b)
					wantObject(t, s, b)
				}
				wantMeta(t, s, "a", "second")
				if !whileOpen {
					wantObject(t, s, more)
				}
			})
		}
	}
}

func TestPutHealsADamagedObject(t *testing.T) {
	fsys, dir, o, blobs := damageStore(t)
	for _, path := range packFiles(t, fsys, dir) {
		if filepath.Ext(path) == ".pack" {
			r := recordRanges(t, fsys, path)
			change(t, fsys, path, r[len(r)-1][0]+headerSize, func(b []byte) { clear(b) }, 50)
		}
	}
	b := blobs[len(blobs)-1]
	s := openTest(t, dir, o)
	if _, err := s.Get(Sum(b), nil); !errors.Is(err, ErrDamaged) {
		t.Fatalf("get: %v", err)
	}
	if ok, err := s.Has(Sum(b)); ok || err != nil {
		t.Fatalf("has: %v %v", ok, err)
	}
	put(t, s, b)
	wantObject(t, s, b)
	if st := s.Stats(); st.Objects != int64(len(blobs)) {
		t.Errorf("%d objects, want %d", st.Objects, len(blobs))
	}
	// The next collection takes the damaged copy away, not the good one.
	collectAllBut(t, s, blobs)
	closeTest(t, s)
	s = openTest(t, dir, o)
	wantObject(t, s, b)
	verifyClean(t, s)
}

func TestMissingPackIsReported(t *testing.T) {
	fsys, dir, o, blobs := damageStore(t)
	for _, path := range packFiles(t, fsys, dir) {
		if filepath.Ext(path) == ".pack" {
			must.OK(t, fsys.Remove(path))
		}
	}
	s := openTest(t, dir, o)
	if n := len(damages(t, s)); n != len(blobs) {
		t.Errorf("%d findings, want %d", n, len(blobs))
	}
	for _, b := range blobs {
		if _, err := s.Get(Sum(b), nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("get: %v", err)
		}
		put(t, s, b)
		wantObject(t, s, b)
	}
	verifyClean(t, s)
}

// TestDamageThatWentAway: a disk may fail to read an object and later read it
// well. What a verification has read well is damaged no more.
func TestDamageThatWentAway(t *testing.T) {
	fsys, dir, o, blobs := damageStore(t)
	s := openTest(t, dir, o)
	b := blobs[len(blobs)-1]
	l, ok, err := s.index.find(Sum(b))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	path := s.packs.get(l.pack).path
	flip(t, fsys, path, l.off+headerSize+9, 0)
	if _, err := s.Get(Sum(b), nil); !errors.Is(err, ErrDamaged) {
		t.Fatalf("get: %v", err)
	}
	flip(t, fsys, path, l.off+headerSize+9, 0)
	verifyClean(t, s)
	if ok, err := s.Has(Sum(b)); !ok || err != nil {
		t.Errorf("has: %v, %v", ok, err)
	}
}
