package snapshot_test

import (
	"context"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestGraftOverOpenFiles: a program that has a file open that an import replaces keeps it, the other
// names of a file stay, and the kernel is told; and recovery comes to the same.
func TestGraftOverOpenFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	w, f := s.Main(), s.Forest()
	root := w.Root()
	in := mkdir(t, s, root, "in")
	for _, name := range []string{"file", "linked", "closed"} {
		write(t, s, in, name, "new "+name)
	}
	_, err := w.Capture(snapshot.CaptureOptions{Name: "brought"})
	must.OK(t, err)
	_, err = w.Snapshots().WaitSealed(context.Background(), "brought")
	must.OK(t, err)
	st, _, err := w.HoldState("brought")
	must.OK(t, err)
	for _, name := range []string{"file", "linked", "closed"} {
		_, err = f.Unlink(in, name)
		must.OK(t, err)
	}
	file, linked := write(t, s, in, "file", "old file"), write(t, s, in, "linked", "old linked")
	write(t, s, in, "closed", "old closed")
	_, err = f.Link(linked, root, "other")
	must.OK(t, err)
	f.Takeover.SetMount(live.Mount{IsHeld: func(id live.NodeID) bool { return id == file }})
	var gone []live.NodeID
	s.Hooks.OnInvalidate(func(inv live.Invalidation, _ func()) { gone = append(gone, goneOf(inv)...) })

	_, err = w.Graft(context.Background(), snapshot.GraftOptions{Tree: st})
	must.OK(t, err)
	look := func(s *snapshot.Store) {
		t.Helper()
		in, err := s.Forest().Lookup(s.Main().Root(), "in")
		must.OK(t, err)
		for _, name := range []string{"file", "linked", "closed"} {
			if got := read(t, s, in.ID, name); got != "new "+name {
				t.Errorf("%s is %q", name, got)
			}
		}
		if got := read(t, s, s.Main().Root(), "other"); got != "old linked" {
			t.Errorf("the other name is %q", got)
		}
	}
	look(s)
	if !slices.Equal(gone, []live.NodeID{file}) {
		t.Errorf("the kernel is told that %v went, and has %v", gone, file)
	}
	_, err = f.Write(file, []byte("OLD"), 0, false)
	must.OK(t, err)
	b := make([]byte, 8)
	if _, err := f.ReadAt(file, b, 0); err != nil || string(b) != "OLD file" {
		t.Errorf("who has it open reads %q, %v", b, err)
	}
	if a, err := f.GetAttr(file); err != nil || a.Nlink != 0 || a.Mode&unix.S_IFMT != unix.S_IFREG {
		t.Errorf("who has it open sees %+v, %v", a, err)
	}
	if _, err := f.GetAttr(linked); err != nil {
		t.Error(err)
	}
	f.Takeover.SetMount(live.Mount{IsHeld: func(live.NodeID) bool { return false }})
	f.Takeover.Forget(file)
	if _, err := f.GetAttr(file); err == nil {
		t.Error("nobody has it open, and it is still there")
	}
	write(t, s, root, "later", "later")
	again := afterKill(t, s, dir)
	look(again)
	if got := read(t, again, again.Main().Root(), "later"); got != "later" {
		t.Errorf("what came later is %q", got)
	}
}

// TestNumberThatIsNotUsed: what takes the first inode number of a page and then makes no
// inode leaves a state that can be sealed.
func TestNumberThatIsNotUsed(t *testing.T) {
	s := open(t, t.TempDir())
	w, f := s.Main(), s.Forest()
	_, err := w.Capture(snapshot.CaptureOptions{Name: "empty"})
	must.OK(t, err)
	for ino := uint64(0); ino%64 != 63; {
		ino = write(t, s, w.Root(), "file", "x").Ino()
		_, err := f.Unlink(w.Root(), "file")
		must.OK(t, err)
	}
	_, err = f.SetAttr(w.Root(), live.SetAttr{Mode: new(uint32)})
	must.OK(t, err)
	_, err = w.Restore(context.Background(), snapshot.RestoreOptions{Name: "empty"})
	must.OK(t, err)
	_, err = w.Capture(snapshot.CaptureOptions{Name: "after"})
	must.OK(t, err)
	_, err = w.Snapshots().WaitSealed(context.Background(), "after")
	must.OK(t, err)
}
