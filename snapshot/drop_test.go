package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
)

// TestBytesBeforeACheckpointThatLaterRecordsNeed: the bytes of a large write
// are journaled ahead of the record that refers to them. A checkpoint may come
// to lie in between; recovery starts there, and needs them.
func TestBytesBeforeACheckpointThatLaterRecordsNeed(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s, err := Open(filepath.Join(dir, "store"), Options{Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, w := s.Forest(), s.Main()
	const files = 80 // of 1 MiB: more than a segment of the journal
	var ids [files]live.NodeID
	for i := range ids {
		a, err := f.Create(w.Root(), fmt.Sprint(i), live.Create{Mode: unix.S_IFREG | 0o644})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = a.ID
	}
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 1<<20) }

	before := s.log.End()
	f.Freeze(time.Minute)
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			if _, err := f.Write(id, content(i), 0, false); err != nil {
				t.Error(err)
			}
		})
	}
	for s.log.End() < before+files<<20 {
		time.Sleep(time.Millisecond)
	}
	// What a checkpoint does, with all the writes and a sealed capture between
	// its beginning and its end.
	var m *moment
	s.alter(func(tx *live.Tx) {
		if m, err = s.moment(tx); err != nil {
			t.Error(err)
		}
	})
	if err := s.commit(ctx, m); err != nil {
		t.Fatal(err)
	}
	f.Thaw()
	wg.Wait()
	if _, err := w.Capture(ctx, CaptureOptions{Name: "v"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WaitSealed(ctx, "v"); err != nil {
		t.Fatal(err)
	}
	if err := s.finish(m); err != nil {
		t.Fatal(err)
	}

	dead := filepath.Join(dir, "dead")
	if out, err := exec.Command("cp", "-a", "--sparse=always", s.dir, dead).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	o, err := Open(dead, Options{Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	got := make([]byte, 1<<20)
	for i, id := range ids {
		if _, err := o.Forest().ReadAt(id, got, 0); err != nil || !bytes.Equal(got, content(i)) {
			t.Fatalf("file %d after recovery: %v", i, err)
		}
	}
}
