package live_test

import (
	"fmt"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestNumbersOfViewsAreGivenBack: after the last number of a view come those of what
// has been removed, and never one that something still has.
func TestNumbersOfViewsAreGivenBack(t *testing.T) {
	dir := t.TempDir()
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	must.OK(t, err)
	capture := func(w *snapshot.Workspace, o snapshot.CaptureOptions) info.Info {
		t.Helper()
		i, err := w.Capture(o)
		must.OK(t, err)
		return i
	}
	w := s.Main()
	first := capture(w, snapshot.CaptureOptions{Name: "first"})
	gone := capture(w, snapshot.CaptureOptions{Name: "gone"})
	held := capture(w, snapshot.CaptureOptions{Name: "held"})
	_, err = w.Snapshots().DeleteAll([]string{"gone", "held"}, actors.Caller{})
	must.OK(t, err)
	s.Forest().Takeover.SetMount(live.Mount{IsHeld: func(id live.NodeID) bool { return id == live.Node(held.View, live.RootIno) }})
	must.OK(t, s.Forest().Update(true, func(tx *live.Tx) error {
		tx.SetCounters(0, live.MaxView-1)
		return nil
	}))
	seen := map[uint32]string{first.View: "first"}
	again := false
	for i := range 20 {
		var views []uint32
		if i%4 == 3 {
			f, err := w.Forks().New(snapshot.ForkOptions{Name: fmt.Sprint("f", i)})
			must.OK(t, err)
			views = []uint32{f.View(), stores.Find(t, f, "base").View}
		} else {
			views = []uint32{capture(w, snapshot.CaptureOptions{}).View}
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
	if s, err = snapshot.Open(dir, snapshot.Options{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n, f := len(s.Main().List()), len(s.Main().Forks().List()); n != 16 || f != 5 {
		t.Errorf("%d snapshots and %d forks", n, f)
	}
	capture(s.Main(), snapshot.CaptureOptions{})
}
