package snapshot

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
)

// TestCheckpointAwaitsRest: what is written and removed again by busy writers is not
// sealed, unless the journal needs it.
func TestCheckpointAwaitsRest(t *testing.T) {
	s := quietStore(t)
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
		{"little, long ago", 1, 1, 0, true, checkpointTime, true},
		{"little, and the writers go on", 1, 1, 0, false, time.Hour, false},
		{"much", checkpointBytes, 1, 0, true, 0, true},
		{"much, and the writers go on", checkpointBytes, 1, 0, false, time.Hour, false},
		{"more than the disk has to spare", checkpointMost, 1, 0, false, 0, true},
		{"more than can be replayed soon", 1, checkpointRecords, 0, false, 0, true},
		{"restores that take as long", 1, checkpointRecords / 2, checkpointRecords / 2, false, 0, true},
	} {
		s.ckpt.at.Store(s.log.End() - c.grown)
		s.ckpt.records.Store(s.log.Records() - c.records)
		s.ckpt.changes.Store(c.changes)
		if due := s.ckpt.checkpointDue(c.calm, c.since); due != c.due {
			t.Errorf("%s: due is %v", c.what, due)
		}
	}
}

// TestToRedo: what a recovery replayed, and what a restore changed, counts for when a
// checkpoint is due until there was one.
func TestToRedo(t *testing.T) {
	const files = 200
	dir := filepath.Join(t.TempDir(), "store")
	open := func() *Store {
		t.Helper()
		s, err := Open(dir, Options{Quiet: true, CloseTime: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	for i := range files {
		if _, err := s.forest.Create(s.Main().Root(), fmt.Sprint(i), live.Create{Mode: 0o100644}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Main().Restore(t.Context(), RestoreOptions{Name: "base"}); err != nil {
		t.Fatal(err)
	}
	check := func(when string, least, most int64) {
		t.Helper()
		if n := s.ckpt.toRedo(); n < least || n > most {
			t.Errorf("%s there is work of %d records to be done again", when, n)
		}
	}
	check("before the end", 2*files, 3*files)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	defer func() { s.Close() }()
	check("after a recovery", 2*files, 3*files)
	if err := s.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("after a checkpoint", 0, 10)
}

// Crowded reports whether checkpoints are made for want of space.
func Crowded(s *Store) bool { return s.room.JournalTooLarge() }

// TestJournalAtRest: once all is stored, the journal takes little space, and sleeps.
func TestJournalAtRest(t *testing.T) {
	s := quietStore(t)
	a, err := s.forest.Create(s.Main().Root(), "a", live.Create{Mode: 0o100644})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.forest.Write(a.ID, make([]byte, 1<<20), 0, false); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	go s.ckpt.awaitChange()
	await.Blocked(t, 1, "(*checkpointer).awaitRecord")
	segments, err := filepath.Glob(filepath.Join(s.dir, "journal", "*"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(segments[0], &st); err != nil || st.Blocks > 1<<20/512 {
		t.Errorf("the journal takes %d blocks of 512 bytes, %v", st.Blocks, err)
	}
	s.ckpt.Ask()
}

func quietStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
