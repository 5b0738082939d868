package snapshot_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// TestHeldTree: of a tree that a restore has replaced the kernel may hold every file. What
// is held is there as it was, whatever is deleted and collected, and can be changed and
// linked; what is forgotten is gone.
func TestHeldTree(t *testing.T) {
	const files = 3000
	dir := t.TempDir()
	s := open(t, dir)
	w, f := s.Main(), s.Forest()
	ctx := context.Background()
	root := w.Root()
	_, err := w.Capture(snapshot.CaptureOptions{Name: "empty"})
	must.OK(t, err)
	text := func(i int) string { return fmt.Sprintf("content of file %d", i) }
	ids := make([]live.NodeID, files)
	in := mkdir(t, s, root, "in")
	for i := range ids {
		ids[i] = write(t, s, in, fmt.Sprint(i), text(i))
	}
	_, err = w.Capture(snapshot.CaptureOptions{Name: "full"})
	must.OK(t, err)
	var mu sync.Mutex
	held := map[live.NodeID]bool{in: true}
	for _, id := range ids {
		held[id] = true
	}
	f.Takeover.SetMount(live.Mount{IsHeld: func(id live.NodeID) bool {
		mu.Lock()
		defer mu.Unlock()
		return held[id]
	}})
	forget := func(id live.NodeID) {
		mu.Lock()
		delete(held, id)
		mu.Unlock()
		f.Takeover.Forget(id)
	}
	restore := func(name string) snapshot.RestoreResult {
		t.Helper()
		res, err := w.Restore(ctx, snapshot.RestoreOptions{Name: name})
		must.OK(t, err)
		return res
	}
	var gone []live.NodeID
	s.Hooks.OnInvalidate(func(inv live.Invalidation, _ func()) { gone = append(gone, goneOf(inv)...) })
	if restore("empty"); len(gone) != files+1 {
		t.Errorf("%d files are said to be open", len(gone))
	}
	for _, sn := range w.List() {
		if sn.Name != "empty" {
			must.OK(t, w.Snapshots().Delete(sn.Name, actors.Caller{}))
		}
	}
	keep := func() {
		t.Helper()
		must.OK(t, s.Checkpoint(ctx))
		_, err := s.GC(ctx, nil)
		must.OK(t, err)
	}
	look := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			b := make([]byte, 64)
			n, err := f.ReadAt(ids[i], b, 0)
			if err != nil || string(b[:n]) != text(i) {
				t.Fatalf("file %d has %q, %v", i, b[:n], err)
			}
		}
	}
	keep()
	look(files-10, files)
	_, err = f.Write(ids[0], []byte("CONTENT"), 0, false)
	must.OK(t, err)
	for i := 10; i < files-30; i++ {
		forget(ids[i])
	}
	keep()
	look(1, 10)
	look(files-30, files)
	b := make([]byte, 7)
	if n, err := f.ReadAt(ids[0], b, 0); err != nil || string(b[:n]) != "CONTENT" {
		t.Errorf("what was written after the restore is %q, %v", b[:n], err)
	}
	if _, err := f.GetAttr(ids[10]); err == nil {
		t.Error("a forgotten file is there")
	}
	_, err = f.Link(ids[1], root, "again")
	must.OK(t, err)
	if a, err := f.GetAttr(ids[1]); err != nil || a.Nlink != 1 {
		t.Errorf("the file that was linked has %+v, %v", a, err)
	}
	for i := range ids {
		forget(ids[i])
	}
	keep()
	if got := read(t, s, root, "again"); got != text(1) {
		t.Errorf("the file that was linked has %q", got)
	}
	again := afterKill(t, s, dir)
	if got := read(t, again, again.Main().Root(), "again"); got != text(1) {
		t.Errorf("after a kill it has %q", got)
	}
}

// TestRestoreOfVeryMany goes between two snapshots that have other contents everywhere:
// the tree afterwards equals the snapshot, also after a kill.
func TestRestoreOfVeryMany(t *testing.T) {
	const files = 3000
	dir := t.TempDir()
	s := open(t, dir)
	w, f := s.Main(), s.Forest()
	ctx := context.Background()
	in := mkdir(t, s, w.Root(), "in")
	for _, v := range []string{"one", "two"} {
		for i := range files {
			if v == "two" {
				_, err := f.Unlink(in, fmt.Sprint(i))
				must.OK(t, err)
			}
			write(t, s, in, fmt.Sprint(i), fmt.Sprintf("%s of %d", v, i))
		}
		_, err := w.Capture(snapshot.CaptureOptions{Name: v})
		must.OK(t, err)
	}
	equal := func(s *snapshot.Store, name string) {
		t.Helper()
		now, err := s.Main().State()
		must.OK(t, err)
		then, _, err := s.Main().HoldState(name)
		must.OK(t, err)
		if err := tree.Diff(ctx, s.Source(), now, then, tree.DiffOptions{}, func(c tree.Change) error {
			return fmt.Errorf("%s differs: %x", c.Path, c.Differences)
		}); err != nil {
			t.Errorf("after the restore of %s: %v", name, err)
		}
		if now.Inodes != then.Inodes || now.Bytes != then.Bytes {
			t.Errorf("%d inodes of %d bytes, where %s has %d of %d", now.Inodes, now.Bytes, name, then.Inodes, then.Bytes)
		}
	}
	for i, name := range []string{"one", "two", "one", "two", "one"} {
		if i == 2 { // from now on of what is sealed
			must.OK(t, s.Checkpoint(ctx))
		}
		res, err := w.Restore(ctx, snapshot.RestoreOptions{Name: name})
		must.OK(t, err)
		if res.Changed != files {
			t.Errorf("restore %d changed %d files", i, res.Changed)
		}
		equal(s, name)
	}
	equal(afterKill(t, s, dir), "one")
}

// goneOf lists what has no name any more and the kernel may know.
func goneOf(inv live.Invalidation) (ids []live.NodeID) {
	for _, e := range inv.Entries {
		if e.HeldNode != 0 {
			ids = append(ids, e.HeldNode)
		}
	}
	return ids
}
