package storedir_test

import (
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/tests/must"
)

// A store that was not filled to the end is a new one, and says what from.
func TestFilling(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []snapshot.Options{{Filling: "/src"}, {}, {Filling: "/src"}} {
		o.Quiet = true
		s, err := snapshot.Open(dir, o)
		must.OK(t, err)
		if from, err := storedir.Unfilled(dir); from != "/src" || err != nil || !s.Created() {
			t.Errorf("it is to be filled from %q, %v, and is new: %v", from, err, s.Created())
		}
		must.OK(t, s.Close())
	}
	for range 2 {
		must.OK(t, storedir.MarkFilled(dir))
	}
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	if err != nil || s.Created() {
		t.Fatal("it is new", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if from, err := storedir.FilledFrom(dir); from != "/src" || err != nil {
		t.Errorf("it was filled from %q, %v", from, err)
	}
}
