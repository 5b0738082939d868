package engine_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestJournalOfAHeldState: a caller that reads a snapshot that is not sealed, to compare or
// to pack it for instance, can go on when it is deleted and its files with it.
func TestJournalOfAHeldState(t *testing.T) {
	ctx := context.Background()
	s, err := snapshot.Open(filepath.Join(t.TempDir(), "store"), snapshot.Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	f, w := s.Forest(), s.Main()
	const size = 80 << 20 // more than a segment of the journal
	a, err := f.Create(w.Root(), "file", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for off := int64(0); off < size; off += int64(len(data)) {
		_, err = f.Write(a.ID, data, off, false)
		must.OK(t, err)
	}
	_, err = w.Capture(snapshot.CaptureOptions{Name: "v"})
	must.OK(t, err)
	st, release, err := w.HoldState("v")
	must.OK(t, err)
	_, err = w.Snapshots().DeleteAll([]string{"v"}, actors.Caller{})
	must.OK(t, err)
	_, err = f.Unlink(w.Root(), "file")
	must.OK(t, err)
	_, err = s.GC(ctx, nil)
	must.OK(t, err)
	n, err := st.Get(s.Source(), a.ID.Ino())
	must.OK(t, err)
	got := make([]byte, len(data))
	if _, err := n.Content.ReadAt(s.Source().Files, got, 0); err != nil || !bytes.Equal(got, data) {
		t.Errorf("reading a state that is held: %v", err)
	}
	release()
	must.OK(t, s.Checkpoint(ctx))
	if n := w.Status().JournalBytes; n > size {
		t.Errorf("nobody reads it any more, and the journal keeps %d bytes", n)
	}
}
