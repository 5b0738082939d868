package catalogue_test

import (
	"errors"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestForksInAForkDoNotKeepIt: a process in a fork cannot keep it by forks in it and a
// policy that protects these, and recovery ends all of them as well.
func TestForksInAForkDoNotKeepIt(t *testing.T) {
	dir := t.TempDir()
	s := stores.Open(t, dir)
	w := s.Main()
	at := w
	for _, name := range []string{"f", "g", "h"} {
		f, err := at.Forks().New(snapshot.ForkOptions{Name: name})
		must.OK(t, err)
		_, err = f.Capture(snapshot.CaptureOptions{Name: "v"})
		must.OK(t, err)
		_, err = f.PatchPolicy([]byte(`{"delete":"nobody","protect":true}`), actors.Caller{ViaSocket: true})
		must.OK(t, err)
		at = f
	}
	if _, err := w.Forks().End("f", actors.Caller{}); !errors.Is(err, errs.Busy) {
		t.Errorf("a fork that has forks ends, and the last states of these are lost: %v", err)
	}
	must.OK(t, w.Forks().Discard("f", actors.Caller{}))
	again := stores.AfterKill(t, s, dir)
	for _, s := range []*snapshot.Store{s, again} {
		if n := len(s.Main().Forks().List()) + len(s.Main().List()); n != 0 {
			t.Errorf("%d forks and snapshots are left", n)
		}
		for view := uint32(1); view < 20; view++ {
			if _, ok := s.Workspace(view); ok {
				t.Errorf("the workspace %d is left", view)
			}
		}
	}
}
