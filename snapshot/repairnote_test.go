package snapshot_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
)

// TestRepairStopped: what a repair leaves out is named also if it is stopped after
// it has cut it off.
func TestRepairStopped(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	write(t, s, s.Main().Root(), "file", "this will be damaged")
	if _, err := s.Main().Capture(snapshot.CaptureOptions{Name: "v1"}); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	flipIn(t, filepath.Join(killed, "journal"), "this will be damaged")
	want, err := snapshot.Check(ctx, killed, snapshot.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	for range 2 {
		if _, err := snapshot.Repair(stopped, killed, snapshot.Options{}, nil); err == nil {
			t.Fatal("the repair was not stopped")
		}
	}
	type look func(context.Context, string, snapshot.Options, func(done, total int64)) (*snapshot.Report, error)
	for _, look := range []look{snapshot.Check, snapshot.Repair} {
		r, err := look(ctx, killed, snapshot.Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Affected, want.Affected) || !slices.Equal(r.Damage, want.Damage) {
			t.Errorf("after a repair that was stopped: %+v, want %+v", r, want)
		}
	}
	if r, err := snapshot.Check(ctx, killed, snapshot.Options{}, nil); err != nil || !r.OK() {
		t.Errorf("after a repair: %+v, %v", r, err)
	}
}
