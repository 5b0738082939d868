package vfstest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
)

// TestConformance runs the same calls on every implementation.
func TestConformance(t *testing.T) {
	t.Run("OS", func(t *testing.T) { conformance(t, vfs.OS, t.TempDir()) })
	t.Run("Beneath", func(t *testing.T) {
		dir := t.TempDir()
		b, err := vfs.OpenRoot(dir)
		must.OK(t, err)
		defer b.Close()
		conformance(t, b, dir)
	})
	t.Run("Mem", func(t *testing.T) { conformance(t, NewMem(), "/disk") })
	t.Run("FailAt", func(t *testing.T) { conformance(t, FailAt(NewMem(), 1<<40, syscall.EIO), "disk") })
}

// exists reports whether a file or directory is there.
func exists(fsys vfs.FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func conformance(t *testing.T, fsys vfs.FS, dir string) {
	no := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	sub := filepath.Join(dir, "a", "b")
	no(fsys.MkdirAll(sub, 0o700))
	no(fsys.MkdirAll(sub, 0o700))
	name := filepath.Join(sub, "file")
	if _, err := vfs.Open(fsys, name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open a missing file: %v", err)
	}
	f, err := vfs.Create(fsys, name)
	no(err)
	if _, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("exclusive create of an existing file: %v", err)
	}
	_, err = f.WriteAt([]byte("hello"), 10)
	no(err)
	b := make([]byte, 20)
	n, err := f.ReadAt(b, 0)
	if n != 15 || err != io.EOF || !bytes.Equal(b[:15], []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00hello")) {
		t.Fatalf("read %d %v %q", n, err, b[:n])
	}
	no(f.Sync())
	no(f.Truncate(12))
	no(f.Truncate(14))
	n, _ = f.ReadAt(b, 9)
	if string(b[:n]) != "\x00he\x00\x00" {
		t.Fatalf("after truncation %q", b[:n])
	}
	no(f.Allocate(0, 100_000))
	if size, err := f.Size(); err != nil || size != 100_000 {
		t.Fatalf("size %d %v", size, err)
	}
	big := bytes.Repeat([]byte{7}, 100_000)
	_, err = f.WriteAt(big, 0)
	no(err)
	no(f.Sync())
	before, err := fsys.Stat(name)
	no(err)
	no(f.Punch(1000, 90_000))
	no(f.Punch(1000, 0))
	no(f.Sync())
	after, err := fsys.Stat(name)
	no(err)
	if after.Allocated >= before.Allocated || after.Size != 100_000 || after.IsDir {
		t.Fatalf("before the hole %+v, after %+v", before, after)
	}
	got, err := vfs.ReadFile(fsys, name)
	no(err)
	copy(big[1000:], make([]byte, 90_000))
	if !bytes.Equal(got, big) {
		t.Fatal("the hole is not where it should be")
	}
	no(f.Close())
	if _, err := f.WriteAt(big, 0); err == nil {
		t.Fatal("wrote to a closed file")
	}
	r, err := vfs.Open(fsys, name)
	no(err)
	if _, err := r.WriteAt(big, 0); err == nil {
		t.Fatal("wrote to a file open for reading")
	}
	no(r.Close())

	other := filepath.Join(sub, "other")
	no(fsys.Rename(name, other))
	if ok, err := exists(fsys, name); ok || err != nil {
		t.Fatalf("the old name exists: %v %v", ok, err)
	}
	no(vfs.WriteFile(fsys, other, []byte("new")))
	got, err = vfs.ReadFile(fsys, other)
	no(err)
	if string(got) != "new" {
		t.Fatalf("replaced by %q", got)
	}
	no(fsys.MkdirAll(filepath.Join(sub, "dir"), 0o700))
	infos, err := fsys.ReadDir(sub)
	no(err)
	if len(infos) != 2 || infos[0].Name != "dir" || !infos[0].IsDir || infos[1].Name != "other" || infos[1].Size != 3 {
		t.Fatalf("listing %+v", infos)
	}
	if err := fsys.Remove(sub); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Fatalf("remove of a full directory: %v", err)
	}
	no(fsys.Remove(other))
	if err := fsys.Remove(other); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("second remove: %v", err)
	}
	no(fsys.SyncDir(sub))
	if free, err := fsys.Free(sub); err != nil || free <= 0 {
		t.Fatalf("free: %d %v", free, err)
	}
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := NewMem()
	must.OK(t, m.MkdirAll("/d", 0o700))
	mk := func(name, content string, sync, syncDir bool) vfs.File {
		f, err := vfs.Create(m, name)
		must.OK(t, err)
		_, err = f.WriteAt([]byte(content), 0)
		must.OK(t, err)
		if sync {
			must.OK(t, f.Sync())
		}
		if syncDir {
			must.OK(t, m.SyncDir("/d"))
		}
		return f
	}
	safe := mk("/d/safe", "safe", true, true)
	_, err := safe.WriteAt([]byte("lost"), 4)
	must.OK(t, err)
	mk("/d/empty", "content", false, true)
	mk("/d/noname", "content", true, false)
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		for _, keep := range []float64{0, 0.5, 1} {
			c := m.CrashClone(keep, rnd)
			b, err := vfs.ReadFile(c, "/d/safe")
			if err != nil || !bytes.HasPrefix(b, []byte("safe")) {
				t.Fatalf("synced bytes are gone: %q %v", b, err)
			}
			if keep == 0 && len(b) != 4 || keep == 1 && string(b) != "safelost" {
				t.Fatalf("keep %v left %q", keep, b)
			}
			b, err = vfs.ReadFile(c, "/d/empty")
			if err != nil || keep == 0 && len(b) != 0 || keep == 1 && string(b) != "content" {
				t.Fatalf("keep %v left %q %v", keep, b, err)
			}
			ok, err := exists(c, "/d/noname")
			if err != nil || keep == 0 && ok || keep == 1 && !ok {
				t.Fatalf("keep %v: name exists %v %v", keep, ok, err)
			}
		}
	}
	if b, err := vfs.ReadFile(m, "/d/safe"); err != nil || string(b) != "safelost" {
		t.Fatalf("the original changed: %q %v", b, err)
	}
}

func TestCrashRenameIsAtomic(t *testing.T) {
	m := NewMem()
	must.OK(t, vfs.WriteFile(m, "/f", []byte("old")))
	for seed := range uint64(100) {
		c := m.CrashClone(0, rand.New(rand.NewPCG(seed, 0)))
		err := vfs.WriteFile(FailAt(c, int64(seed%8), syscall.EIO), "/f", []byte("new"))
		for _, keep := range []float64{0, 0.5, 1} {
			b, rerr := vfs.ReadFile(c.CrashClone(keep, rand.New(rand.NewPCG(seed, 1))), "/f")
			if rerr != nil || string(b) != "old" && string(b) != "new" || err == nil && string(b) != "new" {
				t.Fatalf("write: %v; after the crash %q %v", err, b, rerr)
			}
		}
	}
}

func TestCapacity(t *testing.T) {
	m := NewMem()
	m.SetCapacity(3 * 4096)
	f, err := vfs.Create(m, "/f")
	must.OK(t, err)
	_, err = f.WriteAt(make([]byte, 3*4096), 0)
	must.OK(t, err)
	if _, err := f.WriteAt([]byte{1}, 3*4096); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("write to a full disk: %v", err)
	}
	if err := f.Allocate(3*4096, 1); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("allocate on a full disk: %v", err)
	}
	must.OK(t, f.Punch(4096, 4096))
	if free, _ := m.Free("/"); free != 4096 {
		t.Fatalf("%d bytes free after a hole of one block", free)
	}
	must.OK(t, m.Remove("/f"))
	if m.Used() != 0 {
		t.Fatalf("%d bytes used by a removed file", m.Used())
	}
}

func TestFailAt(t *testing.T) {
	for n := int64(0); ; n++ {
		f := FailAt(NewMem(), n, syscall.EIO)
		err := vfs.WriteFile(f, "/f", []byte("x"))
		if (err != nil) != f.Failed() {
			t.Fatalf("n=%d: error %v, failed %v", n, err, f.Failed())
		}
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		if !f.Failed() {
			if n < 5 {
				t.Fatalf("only %d operations", n)
			}
			return
		}
	}
}
