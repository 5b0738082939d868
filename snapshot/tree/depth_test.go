package tree_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestDepth: directories cannot be nested so deep that a walk would end early, neither
// by making nor by moving nor by bringing them in; up to there all works.
func TestDepth(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := stores.Open(t, dir)
	w, f := s.Main(), s.Forest()
	if _, err := w.Capture(snapshot.CaptureOptions{Name: "flat"}); err != nil {
		t.Fatal(err)
	}
	chain := func(parent live.NodeID, n int) (ids []live.NodeID) {
		for range n {
			parent = stores.Mkdir(t, s, parent, "d")
			ids = append(ids, parent)
		}
		return ids
	}
	tooDeep := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, tree.ErrTooDeep) {
			t.Errorf("%s: %v", what, err)
		}
	}
	const most = tree.MaxDepth - 1
	a := chain(w.Root(), most)
	_, err := f.Create(a[most-1], "d", live.NewNode{Mode: unix.S_IFDIR | 0o755})
	tooDeep("one more directory", err)
	stores.Write(t, s, a[most-1], "file", "at the end")
	b := stores.Mkdir(t, s, w.Root(), "b")
	bs := chain(b, 10)
	_, err = f.Rename(w.Root(), "b", a[most-11], "b", 0, actors.Caller{})
	tooDeep("a chain at the end of another", err)
	_, err = f.Rename(w.Root(), "b", a[most-12], "d", unix.RENAME_EXCHANGE, actors.Caller{})
	if err != nil {
		t.Errorf("an exchange that fits: %v", err)
	}
	// b is at the end now, and what was there at the top.
	_, err = f.Rename(w.Root(), "b", bs[0], "b", 0, actors.Caller{})
	tooDeep("an exchanged chain", err)
	_, err = w.Capture(snapshot.CaptureOptions{Name: "deep"})
	must.OK(t, err)
	_, err = w.Snapshots().WaitSealed(t.Context(), "deep")
	must.OK(t, err)
	st, _, err := w.HoldState("deep")
	must.OK(t, err)
	stores.Mkdir(t, s, w.Root(), "in")
	_, err = w.Graft(t.Context(), snapshot.GraftOptions{Tree: st, Path: "in"})
	tooDeep("an import", err)
	for _, name := range []string{"flat", "deep", "flat"} {
		if _, err := w.Restore(t.Context(), snapshot.RestoreOptions{Name: name}); err != nil {
			t.Fatalf("restore of %s: %v", name, err)
		}
	}
	// What is known of the depth is there after a kill.
	stores.Mkdir(t, s, w.Root(), "z")
	_, err = w.Restore(t.Context(), snapshot.RestoreOptions{Name: "deep"})
	must.OK(t, err)
	s = stores.AfterKill(t, s, dir)
	st, err = s.Main().State()
	must.OK(t, err)
	if _, err := st.Resolve(s.Source(), strings.Repeat("d/", most-1)+"d"); err != nil || st.Depth != most {
		t.Errorf("after a kill: depth %d, found: %t", st.Depth, err == nil)
	}
	if _, err := s.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
