package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/tests/must"
)

// TestCheckpointAwaitsRest: what is written and removed again by busy writers is not
// sealed, unless the journal needs it.
func TestCheckpointAwaitsRest(t *testing.T) {
	log, err := journal.Open(t.TempDir(), journal.Options{FS: vfs.OS, Logger: slog.New(slog.DiscardHandler), SegmentSize: 1 << 20})
	must.OK(t, err)
	defer log.Close()
	p := NewCheckpointer(&Parts{Log: log})
	for _, c := range []struct {
		what    string
		grown   int64
		records uint64
		changes int64
		calm    bool
		since   time.Duration
		due     bool
	}{
		{"nothing was written", 0, 0, 0, true, time.Hour, false},
		{"little, lately", 1, 1, 0, true, time.Second, false},
		{"little, long ago", 1, 1, 0, true, idleCheckpointInterval, true},
		{"little, and the writers go on", 1, 1, 0, false, time.Hour, false},
		{"much", idleCheckpointBytes, 1, 0, true, 0, true},
		{"much, and the writers go on", idleCheckpointBytes, 1, 0, false, time.Hour, false},
		{"more than the disk has to spare", busyCheckpointBytes, 1, 0, false, 0, true},
		{"more than can be replayed soon", 1, busyCheckpointRecords, 0, false, 0, true},
		{"restores that take as long", 1, busyCheckpointRecords / 2, busyCheckpointRecords / 2, false, 0, true},
	} {
		p.LastPos.Store(log.End() - c.grown)
		p.RecordsBeforeLastPos.Store(log.RecordCount() - c.records)
		p.EditStepCount.Store(c.changes)
		if due := p.IsDue(c.calm, c.since); due != c.due {
			t.Errorf("%s: due is %v", c.what, due)
		}
	}
}
