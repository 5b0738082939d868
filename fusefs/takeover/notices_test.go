package takeover

import (
	"log/slog"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestNamesOf: the names that a restore removed or created are dropped, with their nodes.
func TestNamesOf(t *testing.T) {
	s, err := snapshot.Open(filepath.Join(t.TempDir(), "store"), snapshot.Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	notices := &Notices{Store: s, Log: slog.New(slog.DiscardHandler)}
	f, root := s.Forest(), s.Main().Root()
	make := func(dir live.NodeID, name string, mode uint32) live.NodeID {
		a, err := f.Create(dir, name, live.NewNode{Mode: mode | 0o700})
		must.OK(t, err)
		return a.ID
	}
	dir := make(root, "dir", unix.S_IFDIR)
	make(dir, "old", unix.S_IFREG)
	_, err = s.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	_, err = f.Unlink(dir, "old")
	must.OK(t, err)
	made := make(dir, "new", unix.S_IFREG)
	_, err = s.Main().Restore(t.Context(), snapshot.RestoreOptions{Name: "v1"})
	must.OK(t, err)
	names, nodes := map[live.Entry]bool{}, map[live.NodeID]bool{}
	notices.dropAllNames(live.MainView, func(inv live.Invalidation) {
		for _, e := range inv.Entries {
			names[e] = true
		}
		for _, id := range inv.Inodes {
			nodes[id] = true
		}
	})
	for _, e := range []live.Entry{{Parent: root, Name: "dir"}, {Parent: dir, Name: "old"}, {Parent: dir, Name: "new"}} {
		if !names[e] {
			t.Errorf("%q is not dropped", e.Name)
		}
	}
	for _, id := range []live.NodeID{root, dir, made} {
		if !nodes[id] {
			t.Errorf("node %x is not dropped", uint64(id))
		}
	}
}
