package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/tests/must"
)

// TestUnreadableEventLog: a mount does not fail because of a damaged event log. The log is renamed, and a new one
// begins.
func TestUnreadableEventLog(t *testing.T) {
	for _, what := range []string{"0/0000000000000001.jsonl", "."} {
		dir := filepath.Join(t.TempDir(), "events")
		l := events.New(dir, events.Options{FS: vfs.OS, Logger: slog.New(slog.DiscardHandler)})
		if what == "." {
			must.OK(t, os.WriteFile(dir, []byte("x"), 0o600))
		} else if err := os.MkdirAll(filepath.Join(dir, what), 0o700); err != nil {
			t.Fatal(err)
		}
		must.OK(t, loadEventLog(l, dir, vfs.OS, slog.New(slog.DiscardHandler)))
		l.Record(events.Event{Action: events.Captured, Path: "."})
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if old, err := filepath.Glob(dir + ".damaged-*"); err != nil || len(old) != 1 {
			t.Errorf("set aside: %q, %v", old, err)
		}
	}
}
