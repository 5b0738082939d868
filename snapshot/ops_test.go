package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

func undo(t *testing.T, w *snapshot.Workspace, number uint64) {
	t.Helper()
	_, _, err := w.Ops().Undo(t.Context(), number, snapshot.MergeOptions{})
	must.OK(t, err)
}

func fork(t *testing.T, w *snapshot.Workspace, name string) *snapshot.Workspace {
	t.Helper()
	f, err := w.Forks().New(snapshot.ForkOptions{Name: name})
	must.OK(t, err)
	return f
}

// undoneOnce checks that the only operation of main can be undone, and then that it was.
func undoneOnce(t *testing.T, what string, s *snapshot.Store) {
	t.Helper()
	undo(t, s.Main(), 1)
	if _, _, err := s.Main().Ops().Undo(t.Context(), 1, snapshot.MergeOptions{}); !errors.Is(err, errs.Exist) {
		t.Errorf("%s: undone twice: %v", what, err)
	}
}

// TestUndoAfterAKill: an operation and its entry in the list are one record, and so are its undo and the
// mark that it was undone: with a checkpoint before, between and after them.
func TestUndoAfterAKill(t *testing.T) {
	ctx := context.Background()
	for checkpoints := range 8 {
		dir := filepath.Join(t.TempDir(), "store")
		s := open(t, dir)
		at := func(n int) {
			if checkpoints&(1<<n) != 0 {
				must.OK(t, s.Checkpoint(ctx))
			}
		}

		f := fork(t, s.Main(), "f")
		write(t, s, f.Root(), "a", "of f")
		inner := fork(t, f, "inner")
		write(t, s, inner.Root(), "b", "of inner")
		_, err := f.Capture(snapshot.CaptureOptions{Name: "v", Message: "note"})
		must.OK(t, err)
		_, err = f.PatchPolicy([]byte(`{"manual_limit":5}`), actors.Caller{})
		must.OK(t, err)

		at(0)
		_, until, err := s.Main().Forks().Remove("f", true, actors.Caller{})
		must.OK(t, err)
		if until.IsZero() {
			t.Error("nothing is kept")
		}
		if _, err := s.Forest().GetAttr(f.Root()); !errors.Is(err, errs.Stale) {
			t.Errorf("the root of the fork: %v", err)
		}

		at(1)
		for range 2 {
			s = afterKill(t, s, dir)
			dir = s.Main().Status().Store
			if n := len(s.Main().Forks().List()); n != 0 {
				t.Errorf("%d forks are there", n)
			}
		}

		undoneOnce(t, "before", s)
		at(2)
		s = afterKill(t, s, dir)
		if f, err = s.Main().Forks().Named("f"); err != nil {
			t.Fatal(err)
		}
		want(t, "the file", read(t, s, f.Root(), "a"), "of f")
		if inner, err = f.Forks().Named("inner"); err != nil {
			t.Fatal(err)
		}
		want(t, "the file of the inner fork", read(t, s, inner.Root(), "b"), "of inner")
		if i, err := f.Find("v"); err != nil || i.Message != "note" || i.Seq != 1 || f.Policy().ManualLimit != 5 {
			t.Errorf("the snapshot is %+v, %v, and the policy %+v", i, err, f.Policy())
		}
		if ops := s.Main().Ops().List(); len(ops) != 2 || !ops[0].Undone || ops[1].Undoes != 1 {
			t.Errorf("the operations are %+v", ops)
		}
		write(t, s, f.Root(), "a", "again")
	}
}

// TestKeptForUndo: gc keeps what an undo needs for as long as the policy says, and frees it then.
func TestKeptForUndo(t *testing.T) {
	ctx, now := context.Background(), time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	s, err := snapshot.Open(filepath.Join(t.TempDir(), "store"), snapshot.Options{Quiet: true, Now: func() time.Time { return now }})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	w := s.Main()

	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	_, err = w.PatchPolicy([]byte(`{"interval_seconds":0,"undo_seconds":3600}`), actors.Caller{})
	must.OK(t, err)
	write(t, s, w.Root(), "f", string(data[:1<<19]))
	_, err = w.Capture(snapshot.CaptureOptions{Name: "v"}) // removed before it is sealed
	must.OK(t, err)
	_, until, err := w.Snapshots().Remove([]string{"v"}, actors.Caller{})
	must.OK(t, err)
	want(t, "until", until.String(), now.Add(time.Hour).String())
	write(t, s, w.Root(), "f", "")

	f := fork(t, w, "f")
	write(t, s, f.Root(), "g", string(data[1<<19:]))
	_, _, err = w.Forks().Remove("f", false, actors.Caller{})
	must.OK(t, err)
	_, _, err = w.Snapshots().Remove([]string{"f"}, actors.Caller{}) // the fork's last state
	must.OK(t, err)

	stored := func() int64 {
		must.OK(t, s.Checkpoint(ctx))
		_, err := s.GC(ctx, nil)
		must.OK(t, err)
		return s.Main().Status().StoredBytes
	}
	if n := stored(); n < 1<<20 {
		t.Errorf("%d bytes are kept", n)
	}

	now = now.Add(59 * time.Minute)
	s.ApplyPolicies()
	undo(t, w, 4) // the deletion of the last state
	undo(t, w, 3) // the end of the fork, which deletes the last state again
	want(t, "the fork", read(t, s, f.Root(), "g"), string(data[1<<19:]))
	if _, err := w.Find("f"); !errors.Is(err, errs.NotExist) {
		t.Errorf("the last state: %v", err)
	}
	must.OK(t, w.Forks().Discard("f", actors.Caller{}))
	if n := stored(); n < 1<<19 || n > 1<<20 {
		t.Errorf("%d bytes are kept after the fork is gone", n)
	}

	now = now.Add(2 * time.Minute)
	s.ApplyPolicies()
	if _, _, err := w.Ops().Undo(ctx, 2, snapshot.MergeOptions{}); !errors.Is(err, errs.NotExist) {
		t.Errorf("an undo after an hour: %v", err)
	}
	if n := stored(); n > 1<<19 {
		t.Errorf("%d bytes are kept after an hour", n)
	}
}

// TestKeptIsLimited: a fork keeps nothing if the bytes that it may have are limited, and a workspace
// remembers a number of operations.
func TestKeptIsLimited(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store"))
	w := s.Main()
	f := fork(t, w, "f")
	remove := func(w *snapshot.Workspace) bool {
		_, err := w.Capture(snapshot.CaptureOptions{Name: "v"})
		must.OK(t, err)
		_, until, err := w.Snapshots().Remove([]string{"v"}, actors.Caller{})
		must.OK(t, err)
		return !until.IsZero()
	}
	if !remove(f) {
		t.Error("a fork without a limit keeps nothing")
	}
	_, err := f.PatchPolicy([]byte(`{"unshared_bytes":1000000}`), actors.Caller{ViaSocket: true})
	must.OK(t, err)
	if remove(f) || !remove(w) {
		t.Error("a fork with a limit keeps something, or main nothing")
	}

	for i := range 250 {
		fork(t, w, fmt.Sprint("f", i))
		_, _, err := w.Forks().Remove(fmt.Sprint("f", i), true, actors.Caller{})
		must.OK(t, err)
	}
	if ops := w.Ops().List(); len(ops) != 200 || len(s.Workspaces()) != 202 {
		t.Errorf("%d operations, %d workspaces", len(ops), len(s.Workspaces()))
	}
	if err := s.RemoveKept(); err != nil || len(s.Workspaces()) != 2 {
		t.Errorf("%d workspaces are left: %v", len(s.Workspaces()), err)
	}
	if _, err := s.Forest().GetAttr(live.Node(f.View(), live.RootIno)); err != nil {
		t.Error(err)
	}
}
