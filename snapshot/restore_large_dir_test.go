package snapshot_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestRestoreOfALargeDirectory: a directory that goes or comes as a whole costs each of its
// pages once, however often the restore seals; name by name nearly all of them would
// be in memory, and written, each time.
func TestRestoreOfALargeDirectory(t *testing.T) {
	const names, seals = 20_000, 40
	s, err := snapshot.Open(filepath.Join(t.TempDir(), "store"), snapshot.Options{Quiet: true, MaxJournaledSteps: 2 * names / seals})
	must.OK(t, err)
	defer s.Close()
	f, ctx := s.Forest(), context.Background()
	create := func(dir live.NodeID, name string, mode uint32) live.NodeID {
		t.Helper()
		a, err := f.Create(dir, name, live.NewNode{Mode: mode | 0o755})
		must.OK(t, err)
		return a.ID
	}
	dir := create(live.Node(live.MainView, live.RootIno), "dir", unix.S_IFDIR)
	for i := range names {
		create(dir, fmt.Sprintf("f%07d", i), unix.S_IFREG)
	}
	_, err = s.Main().Capture(snapshot.CaptureOptions{Name: "v"})
	must.OK(t, err)
	must.OK(t, s.Checkpoint(ctx))
	pages := s.CAS().Stats().Objects
	for _, name := range []string{"base", "v"} {
		before := s.CAS().Stats().Objects
		_, err = s.Main().Restore(ctx, snapshot.RestoreOptions{Name: name})
		must.OK(t, err)
		if n := s.CAS().Stats().Objects - before; n > 2*pages {
			t.Errorf("restoring %s wrote %d objects, where %d hold all", name, n, pages)
		}
		if differ, err := s.Main().Restore(ctx, snapshot.RestoreOptions{Name: name, DryRun: true}); err != nil || differ.Changed > 0 {
			t.Errorf("%d paths differ from %s, %v", differ.Changed, name, err)
		}
	}
}
