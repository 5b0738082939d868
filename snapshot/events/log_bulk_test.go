package events

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
)

// TestVeryMany: of very many events few are in memory, and all are written, in files
// that are not much larger than they should be.
func TestVeryMany(t *testing.T) {
	l, err := Open(t.TempDir(), Options{FS: vfs.OS, Logger: slog.New(slog.DiscardHandler), QuietTime: time.Hour})
	must.OK(t, err)
	defer l.Close()
	const n = 5*maxPendingEvents + 1
	for i := range n {
		l.Record(Event{Action: Restored, Path: fmt.Sprint("file", i), Workspace: 1, Command: "test"})
		l.mu.Lock()
		waiting := len(l.mu.queue)
		l.mu.Unlock()
		if waiting > maxPendingEvents {
			t.Fatalf("%d events wait", waiting)
		}
	}
	must.OK(t, l.Flush())
	next := uint64(1)
	if err := l.Read(1, 0, func(e Event) error {
		if e.Seq != next || e.Path != fmt.Sprint("file", next-1) {
			return fmt.Errorf("event %d is %+v", next, e)
		}
		next++
		return nil
	}); err != nil || next != n+1 {
		t.Errorf("%d events of %d, %v", next-1, n, err)
	}
	for _, s := range l.mu.logs[1].segments {
		if s.size > 2*DefaultSegmentSize+maxPendingEvents*200 {
			t.Errorf("a file of %d bytes", s.size)
		}
	}
}
