package snapshot

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/tests/must"
)

// TestActorsAfterAFailedCheckpoint: recovery attributes what followed a checkpoint that failed
// to the actors that changed it.
func TestActorsAfterAFailedCheckpoint(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	file := fill(t, s, "file", 1, 'a')
	_, err = s.Forest().WithActor("somebody").Write(file, []byte("x"), 0, false)
	must.OK(t, err)
	_, err = s.Main().Capture(CaptureOptions{Name: "one"})
	must.OK(t, err)
	s.GCWithoutCheckpoint()
	_, err = s.GC(t.Context(), nil)
	must.OK(t, err)
	if s.ckpt.JournalGrowth() == 0 {
		t.Fatal("the checkpoint did not fail")
	}
	_, err = s.Forest().WithActor(actors.Unknown).Write(file, []byte("y"), 0, false)
	must.OK(t, err)
	for _, s := range []*Store{s, killed(t, s)} {
		i, err := s.Main().Capture(CaptureOptions{})
		must.OK(t, err)
		if !slices.Equal(i.Actors, []string{actors.Unknown}) {
			t.Errorf("the change is by %q", i.Actors)
		}
	}
}
