package snapshot

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestCompactIsOneRecord: a compaction is in the journal wholly or not at all.
func TestCompactIsOneRecord(t *testing.T) {
	s := orphanStore(t)
	w := s.Main()
	for _, name := range []string{"a", "b"} {
		_, err := s.forest.Create(w.Root(), name, live.NewNode{Mode: unix.S_IFREG | 0o644})
		must.OK(t, err)
		capture(t, w, CaptureOptions{Name: name})
	}
	before := s.log.RecordCount()
	_, err := w.Snapshots().Compact(context.Background(), CompactOptions{Names: []string{"a", "b"}, Name: "both"})
	must.OK(t, err)
	if n := s.log.RecordCount() - before; n != 1 {
		t.Errorf("%d records", n)
	}
	again := killed(t, s).Main()
	if _, err := again.Find("both"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := again.Find(name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

// TestHeadRenamedWithinACheckpoint: the head of a workspace that is renamed while a checkpoint
// is under way has its new name after a kill.
func TestHeadRenamedWithinACheckpoint(t *testing.T) {
	s := orphanStore(t)
	w := s.Main()
	capture(t, w, CaptureOptions{Name: "old"})
	c, err := s.ckpt.BeginCheckpoint()
	must.OK(t, err)
	must.OK(t, w.Snapshots().Rename("old", "new", actors.Caller{}))
	must.OK(t, c.Commit(context.Background()))
	must.OK(t, c.Finish())
	if head := killed(t, s).Main().ws.Head; head != "new" {
		t.Errorf("the head is %q", head)
	}
}
