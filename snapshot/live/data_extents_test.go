package live

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestManyExtents: extents that a program makes without bringing bytes are charged to it and
// bounded in a file, and a change of many is made in steps, each with the lock held anew.
func TestManyExtents(t *testing.T) {
	f := testForest(t, vfstest.NewMem())
	charged := int64(0)
	f.trees.admit = func(_ uint32, n int64) error {
		charged += n
		return nil
	}
	made, err := f.Create(Node(MainView, RootIno), "f", NewNode{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		t.Fatal(err)
	}
	id := made.ID
	extents := func() int {
		n, err := f.trees.inode(id)
		if err != nil {
			t.Fatal(err)
		}
		return n.Content.ExtentCount()
	}
	const parts = 2048
	for i := range int64(parts) {
		if _, err := f.Write(id, []byte{1}, 2*i, false); err != nil {
			t.Fatal(err)
		}
	}
	charged = 0
	size := int64(2 * parts)
	for err == nil {
		had, before := extents(), charged
		var n int64
		n, err = f.CopyRange(id, 0, id, size, size)
		more := extents() - had
		if size += n; more > maxRunsPerStep {
			t.Fatalf("%d extents in one step", more)
		}
		if charged-before < content.ExtentBytes*int64(more-1) {
			t.Fatalf("%d bytes are charged for %d extents", charged-before, more)
		}
	}
	if got := extents(); !errors.Is(err, errs.CrossDevice) || got > content.MaxExtents || got < content.MaxExtents-2*maxRunsPerStep {
		t.Fatalf("%d extents: %v", got, err)
	}
	if err := f.Fallocate(id, 1, 1, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE); err != nil && !errors.Is(err, errs.TooBig) {
		t.Error(err)
	}
	got, want := make([]byte, 3*maxRunsPerStep), make([]byte, 3*maxRunsPerStep)
	for off := 0; off < len(want); off += maxRunsPerStep / 2 {
		if _, err := f.ReadAt(id, want[off:off+maxRunsPerStep/2], int64(off)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := f.ReadAt(id, got, 0); err != nil || n != len(got) || !bytes.Equal(got, want) || !bytes.Equal(got[:4], []byte{1, 0, 1, 0}) {
		t.Errorf("%d bytes: %v", n, err)
	}
	steps := func(what string, want int, fn func() error) {
		t.Helper()
		had, before := extents(), f.trees.mu.changeCount
		if err := fn(); err != nil {
			t.Fatal(what, err)
		}
		if got := int(f.trees.mu.changeCount - before); got < want || got > 3*want {
			t.Errorf("%s of %d extents takes %d steps, not %d", what, had-extents(), got, want)
		}
	}
	most := extents()
	steps("a hole", most/4/maxRunsPerStep, func() error {
		return f.Fallocate(id, 0, size/4, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
	})
	steps("zeros", most/4/maxRunsPerStep, func() error {
		return f.Fallocate(id, size/4, size/4, unix.FALLOC_FL_ZERO_RANGE)
	})
	half := size/2 + 1
	steps("the second half", most/2/maxRunsPerStep, func() error {
		a, err := f.SetAttr(id, SetAttr{Size: &half})
		if err == nil && a.Size != half {
			t.Errorf("the size is %d, not %d", a.Size, half)
		}
		return err
	})
	if got := extents(); got > 10 {
		t.Errorf("%d extents are left", got)
	}
}
