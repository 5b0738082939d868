package snapshot

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
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

func forkNamed(t testing.TB, w *Workspace, name string) *Workspace {
	t.Helper()
	f, err := w.Forks().New(ForkOptions{Name: name})
	must.OK(t, err)
	return f
}

// TestCheckpointBeginsAnew: a checkpoint does not wait for the seal of a snapshot or of a fork
// that is removed meanwhile, and what it commits is as if they had never been there.
func TestCheckpointBeginsAnew(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Quiet: true})
	must.OK(t, err)
	defer func() { s.Close() }()
	fork := forkNamed(t, s.Main(), "f")
	for _, w := range []*Workspace{s.Main(), fork} {
		_, err = s.Forest().Create(w.Root(), "x", live.NewNode{Mode: unix.S_IFREG | 0o644})
		must.OK(t, err)
	}
	if err := s.Checkpoint(t.Context()); err != nil { // the base of the fork is sealed
		t.Fatal(err)
	}
	_, err = s.Forest().Create(fork.Root(), "y", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	_, err = fork.Capture(CaptureOptions{Name: "v1"})
	must.OK(t, err)
	must.OK(t, fork.sealTurn.Acquire(t.Context(), 1))
	defer fork.sealTurn.Release(1)
	done := make(chan error, 1)
	go func() { done <- s.Checkpoint(context.Background()) }()
	await.Blocked(t, 1, "(*Sealer).EnsureSealed")
	must.OK(t, fork.Snapshots().Delete("v1", actors.Caller{}))
	await.Blocked(t, 1, "(*Sealer).SealInTurn") // what the fork has now
	must.OK(t, s.Main().Forks().Discard("f", actors.Caller{}))
	must.OK(t, await.Receive(t, "the checkpoint", done))
	if st := s.Main().Status(); st.Health != "ok" || st.Metrics.CheckpointsFailed != 0 {
		t.Errorf("health %s, %d failed", st.Health, st.Metrics.CheckpointsFailed)
	}
	must.OK(t, s.Close())
	if s, err = Open(dir, Options{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Forest().Lookup(s.Main().Root(), "x"); err != nil {
		t.Error(err)
	}
	if forks := s.Main().Forks().List(); len(forks) > 0 {
		t.Errorf("forks %v", forks)
	}
}
