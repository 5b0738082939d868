package events

import (
	"errors"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestLoadLater: a log whose files cannot be read yet keeps what is recorded, and numbers go on.
func TestLoadLater(t *testing.T) {
	disk := vfstest.NewMem()
	l := mustOpen(t, disk, Options{})
	l.Record(Event{Workspace: 1, Action: Deleted, Path: "before"})
	l.RecordCapture(Event{Workspace: 1, From: "a"})
	must.OK(t, l.Close())

	l = New("/events", Options{FS: vfstest.FailAt(disk, 1, syscall.EMFILE), Logger: slog.New(slog.DiscardHandler), QuietTime: time.Hour})
	if err := l.Load(); !errors.Is(err, syscall.EMFILE) {
		t.Fatal(err)
	}
	reader := l.Reader(1, 0)
	l.Record(Event{Workspace: 1, Action: Deleted, Path: "early"})
	if s := l.RecordCapture(Event{Workspace: 1, From: "b"}); s.Last >= s.First {
		t.Errorf("a span of events that have no numbers yet: %+v", s)
	}
	must.OK(t, l.Flush())
	must.OK(t, l.Load())
	l.Record(Event{Workspace: 1, Action: Deleted, Path: "late"})
	must.OK(t, l.Flush())
	var paths []string
	for i, e := range all(t, l, 1) {
		if e.Seq != uint64(i+1) {
			t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
		paths = append(paths, e.Path)
	}
	if got := len(paths); got != 5 || paths[2] != "early" || paths[4] != "late" {
		t.Errorf("events of %q", paths)
	}
	if reader.Size() == 0 {
		t.Error("a reader from before shows nothing")
	}
	must.OK(t, l.Close())
}
