package snapshot_test

import (
	"context"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestRootKeepsItsOwner: a restore, an undo and a merge leave the root directory as it is where its owner or
// group is another one, and make its mode what it was where both are the same.
func TestRootKeepsItsOwner(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	w := s.Main()
	root := func() string {
		st, err := w.State()
		must.OK(t, err)
		first, _, _ := strings.Cut(stores.Dump(t, s, st), "\n")
		first, _, _ = strings.Cut(first, " nlink")
		return first[strings.Index(first, "mode"):]
	}
	own := func(node live.NodeID, uid, gid, mode uint32) {
		_, err := s.Forest().SetAttr(node, live.SetAttr{UID: &uid, GID: &gid, Mode: &mode})
		must.OK(t, err)
	}
	restore := func(changed int) {
		t.Helper()
		res, err := w.Restore(context.Background(), snapshot.RestoreOptions{Name: "v1"})
		if must.OK(t, err); res.Changed != changed {
			t.Errorf("changed: %+v", res.Changes)
		}
	}

	own(w.Root(), 0, 0, 0o755)
	_, err := w.Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	own(w.Root(), 0, 0, 0o700)
	restore(1)
	want(t, "a mode", root(), "mode=40755 uid=0")

	own(w.Root(), 1000, 2000, 0o2770)
	restore(0)
	want(t, "an owner", root(), "mode=42770 uid=1000")
	write(t, s, w.Root(), "f", "later")
	restore(1)
	want(t, "an owner, beside a file", root(), "mode=42770 uid=1000")
	want(t, "the file", read(t, s, w.Root(), "f"), "(none)")

	f, err := w.Forks().New(snapshot.ForkOptions{Name: "f1"})
	must.OK(t, err)
	own(f.Root(), 1001, 2000, 0o777)
	_, err = w.Forks().Merge(context.Background(), snapshot.MergeOptions{Fork: "f1"})
	must.OK(t, err)
	write(t, s, w.Root(), "ours", "x")
	write(t, s, f.Root(), "theirs", "y")
	_, err = w.Forks().Merge(context.Background(), snapshot.MergeOptions{Fork: "f1"})
	must.OK(t, err)
	want(t, "after merges", root(), "mode=42770 uid=1000")
	want(t, "what came", read(t, s, w.Root(), "theirs"), "y")

	s = afterKill(t, s, dir)
	w = s.Main()
	want(t, "after a kill", root(), "mode=42770 uid=1000")
}
