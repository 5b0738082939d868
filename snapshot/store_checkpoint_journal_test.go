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
