package snapshot

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestCheckpointSealsTheRest: a snapshot that cannot be sealed at all keeps no other from
// being sealed, and the journal from being dropped only as long as it lasts.
func TestCheckpointSealsTheRest(t *testing.T) {
	s, err := Open(t.TempDir(), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	fork := forkNamed(t, s.Main(), "f")
	for _, w := range []*Workspace{fork, s.Main()} { // that of the fork comes first
		_, err = s.Forest().Create(w.Root(), "x", live.NewNode{Mode: unix.S_IFREG | 0o644})
		must.OK(t, err)
		_, err = w.Capture(CaptureOptions{Name: "v"})
		must.OK(t, err)
	}
	snapshot := func(w *Workspace) *catalogue.Snapshot {
		sn, err := s.cat.Find(w.ws, "v")
		must.OK(t, err)
		return sn
	}
	st := snapshot(fork).State.Swap(nil) // its seal panics
	at := s.ckpt.LastPos.Load()
	if s.Checkpoint(t.Context()) == nil {
		t.Error("the checkpoint succeeds")
	}
	if !snapshot(s.Main()).Sealed || snapshot(fork).Sealed {
		t.Errorf("sealed: %v in main, %v in the fork", snapshot(s.Main()).Sealed, snapshot(fork).Sealed)
	}
	if s.ckpt.LastPos.Load() != at || s.Main().Status().Health == "ok" {
		t.Errorf("the checkpoint is at %d, was at %d; health %s", s.ckpt.LastPos.Load(), at, s.Main().Status().Health)
	}
	snapshot(fork).State.Store(st)
	if err := s.Checkpoint(t.Context()); err != nil || !snapshot(fork).Sealed {
		t.Errorf("%v; sealed: %v", err, snapshot(fork).Sealed)
	}
}
