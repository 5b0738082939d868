package snapshot

import (
	"fmt"
	"testing"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestNumbersOfViewsAreGivenBack: after the last number of a view come those of what
// has been removed, and never one that something still has.
func TestNumbersOfViewsAreGivenBack(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Quiet: true})
	must.OK(t, err)
	w := s.Main()
	first := capture(t, w, CaptureOptions{Name: "first"})
	gone := capture(t, w, CaptureOptions{Name: "gone"})
	held := capture(t, w, CaptureOptions{Name: "held"})
	for _, name := range []string{"gone", "held"} {
		must.OK(t, w.Snapshots().Delete(name, actors.Caller{}))
	}
	s.forest.Takeover.SetMount(live.Mount{IsHeld: func(id live.NodeID) bool { return id == live.Node(held.View, live.RootIno) }})
	s.withLock(func(tx *live.Tx) { tx.SetCounters(0, live.MaxView-1) })
	seen := map[uint32]string{first.View: "first"}
	again := false
	for i := range 20 {
		var views []uint32
		if i%4 == 3 {
			f, err := w.Forks().New(ForkOptions{Name: fmt.Sprint("f", i)})
			must.OK(t, err)
			views = []uint32{f.ws.View, f.ws.Base}
		} else {
			views = []uint32{capture(t, w, CaptureOptions{}).View}
		}
		for _, view := range views {
			if seen[view] != "" || view == held.View {
				t.Fatalf("number %d is given to one more", view)
			}
			seen[view] = "taken"
			again = again || view == gone.View
		}
	}
	if !again {
		t.Error("the number of what was removed is not given again")
	}
	must.OK(t, s.Close())
	if s, err = Open(dir, Options{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n, f := len(s.Main().List()), len(s.Main().Forks().List()); n != 16 || f != 5 {
		t.Errorf("%d snapshots and %d forks", n, f)
	}
	capture(t, s.Main(), CaptureOptions{})
}
