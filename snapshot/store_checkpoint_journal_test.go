package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// TestBytesBeforeACheckpointThatLaterRecordsNeed: the bytes of a large write
// are journaled ahead of the record that refers to them. A checkpoint may come
// to lie in between; recovery starts there, and needs them.
func TestBytesBeforeACheckpointThatLaterRecordsNeed(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s, err := Open(filepath.Join(dir, "store"), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	f, w := s.Forest(), s.Main()
	const files = 80 // of 1 MiB: more than a segment of the journal
	var ids [files]live.NodeID
	for i := range ids {
		a, err := f.Create(w.Root(), fmt.Sprint(i), live.NewNode{Mode: unix.S_IFREG | 0o644})
		must.OK(t, err)
		ids[i] = a.ID
	}
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 1<<20) }

	before := s.log.End()
	f.Freezer.Freeze(time.Hour)
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			if _, err := f.Write(id, content(i), 0, false); err != nil {
				t.Error(err)
			}
		})
	}
	await.True(t, "the bytes are in the journal", func() bool { return s.log.End() >= before+files<<20 })
	// What a checkpoint does, with all the writes and a sealed capture between
	// its beginning and its end.
	c, err := s.ckpt.BeginCheckpoint()
	must.OK(t, err)
	must.OK(t, c.Commit(ctx))
	f.Freezer.Thaw()
	wg.Wait()
	_, err = w.Capture(CaptureOptions{Name: "v"})
	must.OK(t, err)
	_, err = w.Snapshots().WaitSealed(ctx, "v")
	must.OK(t, err)
	must.OK(t, c.Finish())

	dead := filepath.Join(dir, "dead")
	must.CopyStore(t, dead, s.dir)
	o, err := Open(dead, Options{Quiet: true})
	must.OK(t, err)
	defer o.Close()
	got := make([]byte, 1<<20)
	for i, id := range ids {
		if _, err := o.Forest().ReadAt(id, got, 0); err != nil || !bytes.Equal(got, content(i)) {
			t.Fatalf("file %d after recovery: %v", i, err)
		}
	}
}

// TestJournalOfAHeldState: a caller that reads a snapshot that is not sealed, to compare or
// to pack it for instance, can go on when it is deleted and its files with it.
func TestJournalOfAHeldState(t *testing.T) {
	ctx := context.Background()
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true})
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
	_, err = w.Capture(CaptureOptions{Name: "v"})
	must.OK(t, err)
	st, release, err := w.HoldState("v")
	must.OK(t, err)
	must.OK(t, w.Snapshots().Delete("v", actors.Caller{}))
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
	if n := s.log.Size(); n > size {
		t.Errorf("nobody reads it any more, and the journal keeps %d bytes", n)
	}
}
