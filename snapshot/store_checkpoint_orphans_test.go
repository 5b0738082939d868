package snapshot

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// orphanStore is a store of which the kernel holds every node of main.
func orphanStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	s.forest.Takeover.SetMount(live.Mount{IsHeld: func(id live.NodeID) bool { return id.View() == live.MainView }})
	return s
}

// fill writes n MiB to a file of main, which is made if there is none.
func fill(t *testing.T, s *Store, name string, n int, b byte) live.NodeID {
	t.Helper()
	root := s.Main().Root()
	a, err := s.forest.Lookup(root, name)
	if err != nil {
		a, err = s.forest.Create(root, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
	}
	must.OK(t, err)
	for i := range n {
		_, err := s.forest.Write(a.ID, bytes.Repeat([]byte{b, byte(i)}, 1<<19), int64(i)<<20, false)
		must.OK(t, err)
	}
	return a.ID
}

// killed is what opens if the store is killed now.
func killed(t *testing.T, s *Store) *Store {
	t.Helper()
	dead := filepath.Join(t.TempDir(), "dead")
	must.CopyStore(t, dead, s.dir)
	o, err := Open(dead, Options{Quiet: true})
	must.OK(t, err)
	t.Cleanup(func() { o.Close() })
	return o
}

func holds(t *testing.T, s *Store, id live.NodeID, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := s.forest.ReadAt(id, got, 0); err != nil || n != len(want) || !bytes.Equal(got, want) {
		t.Fatalf("%d of %d bytes, %v", n, len(want), err)
	}
}

// TestUnlinkedFileKeepsNoJournal: what an unlinked open file has is sealed by a checkpoint
// like anything else, and stays readable and writable, also when it gets a name again.
func TestUnlinkedFileKeepsNoJournal(t *testing.T) {
	ctx := context.Background()
	s := orphanStore(t)
	root := s.Main().Root()
	id := fill(t, s, "open", 1, 'o')
	content := bytes.Repeat([]byte{'o', 0}, 1<<19)
	_, err := s.forest.Unlink(root, "open")
	must.OK(t, err)
	for round := range 3 {
		fill(t, s, "other", 80, byte(round))
		must.OK(t, s.Checkpoint(ctx))
		if n := s.log.Size(); n > 66<<20 {
			t.Fatalf("round %d: the journal keeps %d bytes", round, n)
		}
		holds(t, s, id, content)
		copy(content[round*100:], "written meanwhile")
		_, err := s.forest.Write(id, []byte("written meanwhile"), int64(round*100), false)
		must.OK(t, err)
	}
	_, err = s.GC(ctx, nil)
	must.OK(t, err)
	holds(t, s, id, content)
	_, err = s.forest.Link(id, root, "back")
	must.OK(t, err)
	fill(t, s, "other", 80, 'x')
	again := killed(t, s)
	a, err := again.forest.Lookup(root, "back")
	must.OK(t, err)
	holds(t, again, a.ID, content)
	must.OK(t, s.Checkpoint(ctx))
	again = killed(t, s)
	holds(t, again, a.ID, content)
}

// TestLinkedWithinACheckpoint: a file without a name that shares bytes with another one, and
// gets a name and is sealed while a checkpoint is under way, is there after a kill: recovery
// needs bytes from before the checkpoint, which nothing else refers to any more.
func TestLinkedWithinACheckpoint(t *testing.T) {
	ctx := context.Background()
	s := orphanStore(t)
	f, root := s.forest, s.Main().Root()
	src := fill(t, s, "source", 1, 's')
	content := bytes.Repeat([]byte{'s', 0}, 1<<19)
	fill(t, s, "other", 80, 'x')
	c, err := s.ckpt.BeginCheckpoint()
	must.OK(t, err)
	tmp, err := f.Tmpfile(root, live.NewNode{Mode: unix.S_IFREG | 0o600})
	must.OK(t, err)
	if n, err := f.CopyRange(src, 0, tmp.ID, 0, 1<<20); err != nil || n != 1<<20 {
		t.Fatal(n, err)
	}
	_, err = f.Link(tmp.ID, root, "linked")
	must.OK(t, err)
	_, err = s.Main().Capture(CaptureOptions{Name: "v"})
	must.OK(t, err)
	_, err = s.Main().Snapshots().WaitSealed(ctx, "v")
	must.OK(t, err)
	must.OK(t, c.Commit(ctx))
	must.OK(t, c.Finish())
	again := killed(t, s)
	a, err := again.forest.Lookup(root, "linked")
	must.OK(t, err)
	holds(t, again, a.ID, content)
	must.OK(t, again.Checkpoint(ctx))
	must.OK(t, s.Checkpoint(ctx))
	if n := s.log.Size(); n > 66<<20 {
		t.Errorf("the journal keeps %d bytes", n)
	}
	holds(t, killed(t, s), a.ID, content)
}
