package journal

import (
	"bytes"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestSyncFarBehind: a log that nobody syncs becomes durable by itself when there is
// much of it, so that the next opening has little to read.
func TestSyncFarBehind(t *testing.T) {
	j := mustOpen(t, memOptions(vfstest.NewMem()))
	defer j.Close()
	add := func() {
		t.Helper()
		if _, err := j.Append(1, make([]byte, 4<<10), nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		add()
	}
	if n := j.durable.Load(); n != 0 {
		t.Fatalf("%d bytes of a short log were synced", n)
	}
	j.behind.most = 64 << 10
	for range 10 { // more than a segment
		add()
	}
	for end := time.Now().Add(time.Minute); j.durable.Load() < 400<<10; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are durable of %d", j.durable.Load(), j.End())
		}
	}
}

// TestWriteOut: while large records are appended the disk is asked to write, up to the
// last 16 MiB; what was appended can be read all the while, dropped, and closed.
func TestWriteOut(t *testing.T) {
	j, err := Open(t.TempDir(), Options{SegmentSize: 40 << 20})
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 1<<20)
	for i := range 100 {
		data[0] = byte(i)
		pos, err := j.Append(1, nil, data)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(data))
		if err := j.ReadAt(got, pos, pos); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("record %d: %v", i, err)
		}
		if i%16 == 0 {
			j.behind.group.Wait()
		}
		if i == 70 {
			if err := j.DropBefore(pos); err != nil {
				t.Fatal(err)
			}
		}
	}
	j.mu.Lock()
	begun := j.begun
	j.mu.Unlock()
	if left := j.End() - begun; left > 2*writeOutEvery {
		t.Errorf("the disk was not asked to write the last %d bytes", left)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
