package snapshot

import (
	"context"
	"errors"
	"testing"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// TestSealFails: a snapshot that cannot be sealed fails those who wait for it, and
// no other.
func TestSealFails(t *testing.T) {
	s, err := Open(t.TempDir(), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	for _, name := range []string{"broken", "whole"} {
		_, err = s.Main().Capture(CaptureOptions{Name: name})
		must.OK(t, err)
	}
	sn := s.Main().ws.Snapshots.Named("broken")
	st := sn.State.Swap(nil)
	if _, err := s.Main().Snapshots().WaitSealed(t.Context(), "whole"); err != nil {
		t.Errorf("the whole one: %v", err)
	}
	if _, err := s.Main().Snapshots().WaitSealed(t.Context(), "broken"); err == nil {
		t.Error("the broken one is sealed")
	}
	sn.State.Store(st)
	if _, err := s.Main().Snapshots().WaitSealed(t.Context(), "broken"); err != nil {
		t.Errorf("what is broken no more: %v", err)
	}
}

// TestSealTurns: a tenant waits for its own seals alone.
func TestSealTurns(t *testing.T) {
	s, err := Open(t.TempDir(), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	busy, err := s.Main().Forks().New(ForkOptions{Name: "busy"})
	must.OK(t, err)
	inside, err := busy.Forks().New(ForkOptions{Name: "inside"})
	must.OK(t, err)
	other, err := s.Main().Forks().New(ForkOptions{Name: "other"})
	must.OK(t, err)
	must.OK(t, busy.sealTurn.Acquire(t.Context(), 1))
	for _, test := range []struct {
		w     *Workspace
		waits bool
	}{{s.Main(), false}, {other, false}, {busy, true}, {inside, true}} {
		_, err = test.w.Capture(CaptureOptions{Name: "v1"})
		must.OK(t, err)
		c, cancel := context.WithCancel(t.Context())
		sealed := make(chan error, 1)
		go func() {
			_, err := test.w.Snapshots().WaitSealed(c, "v1")
			sealed <- err
		}()
		if test.waits {
			await.Blocked(t, 1, "Snapshots.WaitSealed")
			cancel()
		}
		if err := await.Receive(t, "the seal of "+test.w.Name(), sealed); test.waits != errors.Is(err, context.Canceled) || !test.waits && err != nil {
			t.Errorf("%s: %v", test.w.Name(), err)
		}
		cancel()
	}
	busy.sealTurn.Release(1)
	if _, err := inside.Snapshots().WaitSealed(t.Context(), "v1"); err != nil {
		t.Error(err)
	}
}
