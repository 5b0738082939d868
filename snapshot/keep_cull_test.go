package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestCullMany: a policy that lets hundreds of thousands of snapshots go at once does so in
// small steps, and is committed.
func TestCullMany(t *testing.T) {
	all, gone := 24_000, 20_000
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		all, gone = 600_000, 500_000
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := openAt(t, &now)
	w := s.Main()
	first := capture(t, w, CaptureOptions{Name: "first", Kind: info.KindTurn})
	must.OK(t, s.Checkpoint(t.Context()))
	s.withLock(func(tx *live.Tx) {
		sn, err := s.cat.Find(w.ws, "first")
		must.OK(t, err)
		for i := range all {
			view, err := tx.NewView()
			must.OK(t, err)
			more := sn.Record()
			more.View, more.Seq, more.Name = view, first.Seq+1+uint64(i), fmt.Sprint("turn-", i)
			must.OK(t, newApplier(s.applyParts, tx).apply(&catalogue.Pull{Snapshot: more}))
		}
	})
	must.OK(t, s.Checkpoint(t.Context()))
	s.policies.Round()
	policy := fmt.Sprintf(`{"keep":{"turn":{"last":%d}}}`, all-gone)
	if _, err := w.PatchPolicy([]byte(policy), actors.Caller{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(365 * 24 * time.Hour)

	records := s.log.RecordCount()
	s.policies.Round()
	// A step, between two of which other operations go, is a record.
	if steps := s.log.RecordCount() - records; steps < uint64(gone/1000) {
		t.Errorf("%d snapshots went in %d steps", gone, steps)
	}
	if n := len(w.List()); n < all-gone || n > all-gone+2 {
		t.Errorf("%d snapshots are left, want %d", n, all-gone)
	}
	capture(t, w, CaptureOptions{Name: "after"})
	must.OK(t, s.Checkpoint(t.Context()))
	capture(t, w, CaptureOptions{Name: "again"})
	must.OK(t, s.Checkpoint(t.Context()))
	dir := s.dir
	must.OK(t, s.Close())
	s, err := Open(dir, Options{Quiet: true, Now: func() time.Time { return now }})
	must.OK(t, err)
	defer s.Close()
	if n := len(s.Main().List()); n < all-gone+2 || n > all-gone+4 {
		t.Errorf("%d snapshots are left after opening again, want %d", n, all-gone+2)
	}
	if _, err := os.Stat(filepath.Join(dir, "quarantine")); err == nil {
		t.Error("something was set aside")
	}
}
