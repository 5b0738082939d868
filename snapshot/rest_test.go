package snapshot

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
)

// TestCheckpointAwaitsRest: what is written and removed again by busy writers is not
// sealed, unless the journal needs it.
func TestCheckpointAwaitsRest(t *testing.T) {
	s := quietStore(t)
	for _, c := range []struct {
		what    string
		grown   int64
		records uint64
		calm    bool
		since   time.Duration
		due     bool
	}{
		{"nothing was written", 0, 0, true, time.Hour, false},
		{"little, lately", 1, 1, true, time.Second, false},
		{"little, long ago", 1, 1, true, checkpointTime, true},
		{"little, and the writers go on", 1, 1, false, time.Hour, false},
		{"much", checkpointBytes, 1, true, 0, true},
		{"much, and the writers go on", checkpointBytes, 1, false, time.Hour, false},
		{"more than the disk has to spare", checkpointMost, 1, false, 0, true},
		{"more than can be replayed soon", 1, checkpointRecords, false, 0, true},
	} {
		s.ckpt.at.Store(s.log.End() - c.grown)
		s.ckpt.first = s.log.Records() - c.records
		if due := s.checkpointDue(c.calm, c.since); due != c.due {
			t.Errorf("%s: due is %v", c.what, due)
		}
	}
}

// TestSealGivesWay to writers, but not when somebody waits for it.
func TestSealGivesWay(t *testing.T) {
	s := quietStore(t)
	rests := func() bool {
		s.seal.rested.Store(0)
		s.giveWay()
		return s.seal.rested.Load() != 0
	}
	change := func(name string) {
		t.Helper()
		if _, err := s.forest.Create(live.Node(live.MainView, live.RootIno), name, live.Create{Mode: 0o100644}); err != nil {
			t.Fatal(err)
		}
	}
	change("a")
	if !rests() {
		t.Error("it goes on beside a writer")
	}
	if rests() {
		t.Error("it rests, and there is no writer")
	}
	change("b")
	done := s.seal.urgent()
	if rests() {
		t.Error("it rests while somebody waits")
	}
	done()
	change("c")
	if !rests() {
		t.Error("it goes on although nobody waits any more")
	}
}

// TestCheckpointsSleep while there is nothing to write down.
func TestCheckpointsSleep(t *testing.T) {
	s := quietStore(t)
	s.ckpt.at.Store(s.log.End())
	woken := make(chan bool)
	go func() { woken <- s.awaitChange() }()
	select {
	case <-woken:
		t.Fatal("it does not sleep")
	case <-time.After(1500 * time.Millisecond):
	}
	s.ckpt.signal.up()
	if asked := <-woken; !asked {
		t.Error("it does not say that it was asked")
	}
	if _, err := s.forest.Create(live.Node(live.MainView, live.RootIno), "a", live.Create{Mode: 0o100644}); err != nil {
		t.Fatal(err)
	}
	if asked := s.awaitChange(); asked {
		t.Error("nobody asked")
	}
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
