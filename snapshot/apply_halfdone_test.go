package snapshot

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestHalfDoneChangeIsNotCommitted: a change that failed half-way is in no
// checkpoint, not even in the one at the end. The journal makes it right.
func TestHalfDoneChangeIsNotCommitted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, Options{Quiet: true})
	must.OK(t, err)
	defer func() { s.Close() }()
	_, err = s.Main().Capture(CaptureOptions{Name: "v1"})
	must.OK(t, err)
	failed := errors.New("half-way")
	err = s.forest.Update(true, func(tx *live.Tx) error {
		sn, err := s.cat.Find(s.cat.Workspaces.At(live.MainView), "v1")
		if err != nil {
			return err
		}
		if err := s.applier(tx).commit(&catalogue.Delete{Views: []uint32{sn.View}}, actors.Caller{}); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if err := s.Checkpoint(context.Background()); !errors.Is(err, live.ErrFailed) {
		t.Errorf("checkpoint: %v", err)
	}
	must.OK(t, s.Close())
	if s, err = Open(dir, Options{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Main().Find("v1"); !errors.Is(err, catalogue.ErrNotFound) {
		t.Errorf("what is in the journal was not done: %v", err)
	}
}

// TestPanicWhileMakingRoom leaves no lock held.
func TestPanicWhileMakingRoom(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
	must.OK(t, err)
	defer s.Close()
	n, err := s.forest.Create(s.Main().Root(), "f", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	_, err = s.forest.Write(n.ID, make([]byte, 4<<20), 0, false)
	must.OK(t, err)
	ws := s.Main().ws
	s.forest.WithLock(func(*live.Tx) { s.meter.RemoveWorkspace(ws.View) })
	var p *guard.Panic
	if err := guard.Do(func() error { return s.room.EnsureFree(1 << 60) }); !errors.As(err, &p) {
		t.Errorf("no panic but %v", err)
	}
	s.forest.WithLock(func(*live.Tx) { s.meter.AddWorkspace(ws) })
	if !s.ckpt.TryCheckpoint() {
		t.Fatal("checkpoints wait for ever")
	}
}
