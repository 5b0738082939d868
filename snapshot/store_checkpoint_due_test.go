package snapshot

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// TestToRedo: what a recovery replayed, and what a restore changed, counts for when a
// checkpoint is due until there was one.
func TestToRedo(t *testing.T) {
	const files = 200
	dir := filepath.Join(t.TempDir(), "store")
	open := func() *Store {
		t.Helper()
		s, err := Open(dir, Options{Quiet: true, CloseTime: time.Nanosecond})
		must.OK(t, err)
		return s
	}
	s := open()
	for i := range files {
		_, err := s.forest.Create(s.Main().Root(), fmt.Sprint(i), live.NewNode{Mode: 0o100644})
		must.OK(t, err)
	}
	_, err := s.Main().Restore(t.Context(), RestoreOptions{Name: "base"})
	must.OK(t, err)
	check := func(when string, least, most int64) {
		t.Helper()
		if n := s.ckpt.StepsToReplay(); n < least || n > most {
			t.Errorf("%s there is work of %d records to be done again", when, n)
		}
	}
	check("before the end", 2*files, 3*files)
	must.OK(t, s.Close())
	s = open()
	defer func() { s.Close() }()
	check("after a recovery", 2*files, 3*files)
	must.OK(t, s.Checkpoint(t.Context()))
	check("after a checkpoint", 0, 10)
}

// TestJournalAtRest: once all is stored, the journal takes little space, and sleeps.
func TestJournalAtRest(t *testing.T) {
	s := quietStore(t)
	a, err := s.forest.Create(s.Main().Root(), "a", live.NewNode{Mode: 0o100644})
	must.OK(t, err)
	_, err = s.forest.Write(a.ID, make([]byte, 1<<20), 0, false)
	must.OK(t, err)
	must.OK(t, s.Checkpoint(t.Context()))
	go s.ckpt.AwaitChange(0, time.Time{})
	await.Blocked(t, 1, "(*Checkpointer).awaitRecord")
	segments, err := filepath.Glob(filepath.Join(s.dir, "journal", "*"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(segments[0], &st); err != nil || st.Blocks > 1<<20/512 {
		t.Errorf("the journal takes %d blocks of 512 bytes, %v", st.Blocks, err)
	}
	s.ckpt.CheckSoon()
}

func quietStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// TestCheckpointsSleep while there is nothing to write down.
func TestCheckpointsSleep(t *testing.T) {
	s := quietStore(t)
	s.ckpt.LastPos.Store(s.log.End())
	woken := make(chan struct{})
	go func() {
		s.ckpt.AwaitChange(0, time.Time{})
		close(woken)
	}()
	await.Blocked(t, 1, "(*Checkpointer).awaitRecord")
	s.ckpt.CheckSoon()
	await.Receive(t, "it was asked, and wakes up", woken)
	_, err := s.forest.Create(live.Node(live.MainView, live.RootIno), "a", live.NewNode{Mode: 0o100644})
	must.OK(t, err)
	s.ckpt.AwaitChange(0, time.Time{}) // it returns
}
