package journal

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

func isFailed(err error) bool { return errors.Is(err, ErrFailed) }

func TestFullDisk(t *testing.T) {
	fs := vfstest.NewMem()
	fs.SetCapacity(200 << 10)
	rnd := rand.New(rand.NewPCG(5, 5))
	j := mustOpen(t, memOptions(fs))
	var items []item
	for {
		end := j.End()
		it, err := appendItem(j, rnd, uint64(len(items)), 5000)
		if err != nil {
			if !errors.Is(err, errs.NoSpace) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			if j.End() != end {
				t.Fatal("a failed append moved the end")
			}
			break
		}
		items = append(items, it)
	}
	if len(items) < 40 {
		t.Fatalf("only %d records fit", len(items))
	}
	readBack(t, j, items)
	must.OK(t, j.Sync())
	must.OK(t, j.Close())
	j = mustOpen(t, memOptions(fs))
	got, err := collect(j, 0)
	if err != nil || len(got) != len(items) {
		t.Fatalf("%d of %d records: %v", len(got), len(items), err)
	}
	samePrefix(t, got, items)
	// Space makes it go on.
	must.OK(t, j.DropBefore(items[len(items)-1].end))
	for range 10 {
		_, err = appendItem(j, rnd, 1, 5000)
		must.OK(t, err)
	}
	must.OK(t, j.Close())
}

// On a disk without room for a whole segment a smaller one does.
func TestSmallerSegmentOnFullDisk(t *testing.T) {
	fs := vfstest.NewMem()
	fs.SetCapacity(6 << 20)
	j := mustOpen(t, Options{FS: fs})
	var n int
	for ; n < 10; n++ {
		if _, err := j.Append(1, nil, make([]byte, 1<<20), false); err != nil {
			if !errors.Is(err, errs.NoSpace) {
				t.Fatal(err)
			}
			break
		}
	}
	if n < 3 || n > 6 {
		t.Fatalf("%d records of 1 MiB fit on 6 MiB", n)
	}
}

func TestReserve(t *testing.T) {
	fs := vfstest.NewMem()
	fs.SetCapacity(1 << 20)
	reserve := int64(512 << 10)
	o := memOptions(fs)
	o.Reserve = func() int64 { return reserve }
	j := mustOpen(t, o)
	for {
		if _, err := j.Append(1, nil, make([]byte, 4000), false); err != nil {
			if !errors.Is(err, errs.NoSpace) {
				t.Fatal(err)
			}
			break
		}
	}
	if free, _ := fs.Free(testDir); free < reserve || free > reserve+64<<10 {
		t.Fatalf("%d bytes are free, %d were to be kept", free, reserve)
	}
	reserve = 0
	_, err := j.Append(1, nil, make([]byte, 4000), false)
	must.OK(t, err)
}

// A journal that no process needs any more gives its segment back also when writers
// would have to leave what the disk has free.
func TestShrinkOnFullDisk(t *testing.T) {
	fs := vfstest.NewMem()
	fs.SetCapacity(64 << 20)
	full := false
	j := mustOpen(t, Options{FS: fs, SegmentSize: 32 << 20, Reserve: func() int64 {
		if full {
			return 1 << 40
		}
		return 0
	}})
	for range 8 {
		_, err := j.Append(1, nil, make([]byte, 1<<20), false)
		must.OK(t, err)
	}
	full = true
	must.OK(t, j.Shrink(j.End()))
	if n := j.Size(); n > 1<<10 {
		t.Errorf("the journal still has %d bytes", n)
	}
	if n := fs.Used(); n > 2<<20 {
		t.Errorf("and takes %d", n)
	}
}

func TestDropBefore(t *testing.T) {
	fs := vfstest.NewMem()
	j := mustOpen(t, memOptions(fs))
	rnd := rand.New(rand.NewPCG(9, 9))
	var items []item
	high := int64(0)
	for i := range 400 {
		it, err := appendItem(j, rnd, uint64(i), 3000)
		must.OK(t, err)
		items = append(items, it)
		if i%10 == 9 {
			keep := len(items) - 5
			must.OK(t, j.DropBefore(items[keep].end))
			items = items[keep+1:]
			readBack(t, j, items)
			got, err := collect(j, items[0].dataPos-int64(items[0].headLen)-recordHeaderSize)
			must.OK(t, err)
			samePrefix(t, got, items)
		}
		high = max(high, fs.Used())
	}
	if high > 8*(16<<10) {
		t.Fatalf("the disk held up to %d bytes", high)
	}
	if err := j.ReadAt(make([]byte, 1), segmentHeaderSize+recordHeaderSize, segmentHeaderSize+recordHeaderSize); !errors.Is(err, ErrPosition) {
		t.Fatalf("reading what was dropped: %v", err)
	}
	if _, err := collect(j, 0); !errors.Is(err, ErrPosition) {
		t.Fatalf("replay of what was dropped: %v", err)
	}
	must.OK(t, j.Close())
	infos, err := fs.ReadDir(testDir)
	must.OK(t, err)
	for _, i := range infos {
		if _, ok := parseSegmentName(i.Name); !ok {
			t.Errorf("%s is left behind", i.Name)
		}
	}
}

// syncDirFS calls a function at each sync of a directory.
type syncDirFS struct {
	vfs.FS
	before func()
}

func (f *syncDirFS) SyncDir(dir string) error {
	f.before()
	return f.FS.SyncDir(dir)
}

// Giving up segments takes long on a real disk, and no process may wait for it.
func TestAppendWhileDropping(t *testing.T) {
	fs := &syncDirFS{FS: vfstest.NewMem(), before: func() {}}
	o := memOptions(nil)
	o.FS = fs
	j := mustOpen(t, o)
	for range 100 {
		_, err := j.Append(1, nil, make([]byte, 3000), false)
		must.OK(t, err)
	}
	must.OK(t, j.Sync())
	dropping := false
	fs.before = func() {
		done := make(chan error, 1)
		go func() {
			_, err := j.Append(1, nil, nil, false)
			done <- err
		}()
		if err := await.Receive(t, "an append, before segments are gone", done); err != nil {
			t.Error(err)
		}
		dropping = true
	}
	must.OK(t, j.DropBefore(j.End()))
	if !dropping {
		t.Error("nothing was dropped")
	}
	fs.before = func() {}
	must.OK(t, j.Close())
}

// stubborn is a disk on which one file keeps its name.
type stubborn struct {
	vfs.FS
	name string
}

var errStubborn = errors.New("it stays")

func (s *stubborn) Remove(name string) error {
	if name == s.name {
		return errStubborn
	}
	return s.FS.Remove(name)
}

func (s *stubborn) Rename(from, to string) error {
	if from == s.name {
		return errStubborn
	}
	return s.FS.Rename(from, to)
}

// TestSegmentThatStays: when a segment cannot be dropped, those behind it stay too,
// or the gap would be damage at the next opening; later all go.
func TestSegmentThatStays(t *testing.T) {
	for stays := range 8 {
		fs := &stubborn{FS: vfstest.NewMem()}
		rnd := rand.New(rand.NewPCG(7, 7))
		j := mustOpen(t, memOptions(fs))
		var items []item
		for len(j.segments()) < 10 {
			it, err := appendItem(j, rnd, uint64(len(items)), 5000)
			must.OK(t, err)
			items = append(items, it)
		}
		segs := j.segments()
		fs.name = j.disk.path(segs[stays].name)
		if err := j.DropBefore(j.End()); !errors.Is(err, errStubborn) {
			t.Fatalf("segment %d: %v", stays, err)
		}
		left := items
		for len(left) > 0 && left[0].end <= segs[stays].base {
			left = left[1:]
		}
		if first := j.segments()[0]; first != segs[stays] {
			t.Fatalf("segment %d stays, but the first is now %s", stays, first.name)
		}
		got, err := collect(j, segs[stays].base)
		must.OK(t, err)
		samePrefix(t, got, left)
		must.OK(t, j.Close())
		fs.name = ""
		j = mustOpen(t, memOptions(fs))
		if got, err = collect(j, segs[stays].base); err != nil || len(got) != len(left) {
			t.Fatalf("%d of %d records after segment %d stayed: %v", len(got), len(left), stays, err)
		}
		must.OK(t, j.DropBefore(j.End()))
		if n := len(j.segments()); n != 1 {
			t.Errorf("%d segments are left", n)
		}
		must.OK(t, j.Close())
	}
}
