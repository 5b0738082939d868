package cas

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

func TestLostIndexComesBack(t *testing.T) {
	breakages := map[string]func(t *testing.T, dir string){
		"removed": func(t *testing.T, dir string) {
			must.OK(t, os.RemoveAll(dir))
		},
		"manifest garbage": func(t *testing.T, dir string) {
			must.OK(t, os.WriteFile(filepath.Join(dir, "MANIFEST"), bytes.Repeat([]byte("x"), 100), 0o600))
		},
		"tables removed": func(t *testing.T, dir string) {
			names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			if err != nil || len(names) == 0 {
				t.Fatal("no tables", err)
			}
			for _, n := range names {
				must.OK(t, os.Remove(n))
			}
		},
		"opened by a process that died": func(t *testing.T, dir string) {
			must.OK(t, os.WriteFile(filepath.Join(dir, "OPENING"), nil, 0o600))
		},
		"of another version": func(t *testing.T, dir string) {
			x, err := index.Open(dir, slog.New(slog.DiscardHandler), false)
			must.OK(t, err)
			b := x.Batch(nil)
			b.Put([]byte{keyHead}, []byte("amberfs index 99, 1"))
			must.OK(t, b.Commit())
			must.OK(t, x.Close())
		},
	}
	for name, hurt := range breakages {
		t.Run(name, func(t *testing.T) {
			_, dir, o, blobs := damageStore(t)
			hurt(t, o.indexDir)
			s := openTest(t, dir, o)
			for _, b := range blobs {
				wantObject(t, s, b)
			}
			wantMeta(t, s, "a", "second")
			wantMeta(t, s, "b", string(blob(5, 300)))
			verifyClean(t, s)
			if st := s.Stats(); st.Objects != int64(len(blobs)) {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

func TestIndexInUseIsLeftAlone(t *testing.T) {
	fsys, dir := vfstest.NewMem(), t.TempDir()
	o := memOptions(t, fsys)
	s := openTest(t, dir, o)
	b := blob(1, 1000)
	put(t, s, b)
	commit(t, s)
	mark := filepath.Join(o.indexDir, "OPENING")
	must.OK(t, os.WriteFile(mark, nil, 0o600))
	if _, err := Open(dir, o); !errors.Is(err, ErrInUse) {
		t.Fatalf("second open: %v", err)
	}
	if _, err := Repair(dir, o); !errors.Is(err, ErrInUse) {
		t.Fatalf("repair of an open store: %v", err)
	}
	must.OK(t, os.Remove(mark))
	wantObject(t, s, b)
	closeTest(t, s)
	s = openTest(t, dir, o)
	wantObject(t, s, b)
}

// TestIndexFromBeforeACollection: an index put back from a copy has places where
// nothing is any more. It must be noticed.
func TestIndexFromBeforeACollection(t *testing.T) {
	fsys, dir := vfstest.NewMem(), t.TempDir()
	o := memOptions(t, fsys)
	s := openTest(t, dir, o)
	var all, keep [][]byte
	for i := range 200 {
		b := blob(uint64(i), 3000)
		put(t, s, b)
		all = append(all, b)
		if i%20 == 0 {
			keep = append(keep, b)
		}
	}
	commit(t, s, MetaOp{Key: "k", Value: []byte("v")})
	closeTest(t, s)
	old := copyDir(t, o.indexDir)
	s = openTest(t, dir, o)
	collectAllBut(t, s, keep)
	closeTest(t, s)

	o.indexDir = old
	s = openTest(t, dir, o)
	verifyClean(t, s)
	for i, b := range all {
		if i%20 != 0 {
			put(t, s, b)
		}
		wantObject(t, s, b)
	}
	wantMeta(t, s, "k", "v")
}

func TestUnknownFormatIsRefusedUntouched(t *testing.T) {
	fsys, dir, o, _ := damageStore(t)
	path := packFiles(t, fsys, dir)[0]
	id, _ := parsePackName(filepath.Base(path))
	change(t, fsys, path, 0, func(b []byte) { copy(b, encodePackHeaderVersion(id, 99)) }, packHeaderSize)
	before := snapshotDisk(t, fsys, dir)
	must.OK(t, os.RemoveAll(o.indexDir))
	for name, open := range map[string]func() error{
		"open":   func() error { _, err := Open(dir, o); return err },
		"repair": func() error { _, err := Repair(dir, o); return err },
		"read":   func() error { ro := o; ro.ReadOnly = true; _, err := Open(dir, ro); return err },
	} {
		err := open()
		if !errors.Is(err, errs.Format) || !bytes.Contains([]byte(err.Error()), []byte("version 99")) {
			t.Errorf("%s: %v, want errs.Format naming version 99", name, err)
		}
	}
	if after := snapshotDisk(t, fsys, dir); after != before {
		t.Error("the packs were touched")
	}
	if _, err := os.Stat(o.indexDir); !errors.Is(err, os.ErrNotExist) {
		t.Error("an index was made")
	}
}

func snapshotDisk(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	var all []byte
	infos, err := fsys.ReadDir(filepath.Join(dir, "packs"))
	must.OK(t, err)
	for _, i := range infos {
		b, err := vfs.ReadFile(fsys, filepath.Join(dir, "packs", i.Name))
		must.OK(t, err)
		all = append(append(all, i.Name...), b...)
	}
	return Sum(all).String()
}

// TestReadOnlyTouchesNothing also reads a store that was killed.
func TestReadOnlyTouchesNothing(t *testing.T) {
	fsys, dir := vfstest.NewMem(), t.TempDir()
	s := openTest(t, dir, memOptions(t, fsys))
	a, b := blob(1, 5000), blob(2, 5000)
	put(t, s, a)
	commit(t, s, MetaOp{Key: "k", Value: []byte("v")})
	put(t, s, b)
	for _, path := range packFiles(t, fsys, dir) {
		f, err := fsys.OpenFile(path, os.O_RDWR, 0)
		must.OK(t, err)
		size, _ := f.Size()
		_, err = f.WriteAt([]byte("torn"), size)
		must.OK(t, err)
		f.Close()
	}
	before := snapshotDisk(t, fsys, dir)
	o := Options{FS: fsys, ReadOnly: true, indexDir: filepath.Join(memDir(t), "index")}
	ro := openTest(t, dir, o)
	wantObject(t, ro, a)
	wantObject(t, ro, b)
	wantMeta(t, ro, "k", "v")
	if err := ro.Commit(); !errors.Is(err, errs.ReadOnly) {
		t.Errorf("commit: %v", err)
	}
	if _, err := ro.GC(context.Background(), false, nil, nil, nil); !errors.Is(err, errs.ReadOnly) {
		t.Errorf("gc: %v", err)
	}
	closeTest(t, ro)
	if after := snapshotDisk(t, fsys, dir); after != before {
		t.Error("the packs were touched")
	}
	if _, err := os.Stat(o.indexDir); !errors.Is(err, os.ErrNotExist) {
		t.Error("an index was made")
	}
}
