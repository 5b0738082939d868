package snapshot_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// nearlyFull is a disk that has only so much free as it is told, if anything.
type nearlyFull struct {
	vfs.FS
	free atomic.Int64 // 0: as much as there is
}

func (d *nearlyFull) Free(dir string) (int64, error) {
	if n := d.free.Load(); n != 0 {
		return n, nil
	}
	return d.FS.Free(dir)
}

// withJournal opens a store that keeps some MiB in its journal.
func withJournal(t *testing.T, quiet bool) (*snapshot.Store, *nearlyFull, live.NodeID) {
	t.Helper()
	disk := &nearlyFull{FS: vfs.OS}
	s, err := snapshot.Open(filepath.Join(t.TempDir(), "store"), snapshot.Options{FS: disk, Quiet: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		disk.free.Store(0)
		s.Close()
	})
	data := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	return s, disk, write(t, s, s.Main().Root(), "file", string(data))
}

// TestCrowdedAndIdle: a store on a nearly full disk writes nothing to it when
// nobody writes to the store.
func TestCrowdedAndIdle(t *testing.T) {
	t.Parallel()
	s, disk, _ := withJournal(t, false)
	disk.free.Store(s.CAS().Headroom() + 32<<20 + 9<<20)
	time.Sleep(4500 * time.Millisecond)
	st := s.Main().Status()
	if n := st.Figures.Checkpoints; n > 2 { // the first made the store
		t.Errorf("%d checkpoints", n)
	}
	if st.JournalBytes > 1<<20 {
		t.Errorf("the journal still has %d bytes", st.JournalBytes)
	}
}

// TestFullIsQuick: who writes to a full disk on which nothing can be sealed hears
// so at once.
func TestFullIsQuick(t *testing.T) {
	s, disk, id := withJournal(t, false)
	disk.free.Store(20 << 20)
	for range 1000 { // what was found free earlier may still be written
		if _, err := s.Forest().Write(id, make([]byte, 4096), 0, false); err != nil {
			break
		}
	}
	start := time.Now()
	for range 50 {
		if _, err := s.Forest().Write(id, make([]byte, 4096), 0, false); !errors.Is(err, live.ErrNoSpace) {
			t.Fatal(err)
		}
	}
	if d := time.Since(start) / 50; d > 2*time.Millisecond {
		t.Errorf("%v for each refusal", d)
	}
}

// TestWriterDoesNotWaitForGC: gc waits for whoever puts objects, an import for
// instance, and that may wait for a program that writes to a nearly full disk.
func TestWriterDoesNotWaitForGC(t *testing.T) {
	s, disk, id := withJournal(t, false)
	done := s.Importing()
	gc := make(chan error, 1)
	go func() {
		_, err := s.GC(context.Background(), nil)
		gc <- err
	}()
	time.Sleep(time.Second)
	disk.free.Store(s.CAS().Headroom() + 32<<20)
	wrote := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = s.Forest().Write(id, make([]byte, 4096), 0, false)
		}
		wrote <- err
	}()
	select {
	case err := <-wrote:
		t.Log(err)
	case <-time.After(20 * time.Second):
		t.Error("the writer waits for gc, and gc for the import")
	}
	disk.free.Store(0)
	done()
	if err := <-gc; err != nil {
		t.Error(err)
	}
}

// TestSealDoesNotWaitForGC: nor does a seal, and whoever waits for that.
func TestSealDoesNotWaitForGC(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store"))
	write(t, s, s.Main().Root(), "file", "content")
	done := s.Importing()
	gc := make(chan error, 1)
	go func() {
		_, err := s.GC(context.Background(), nil)
		gc <- err
	}()
	time.Sleep(time.Second) // gc waits for the import now
	if _, err := s.Main().Capture(snapshot.CaptureOptions{Name: "v"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := s.Main().WaitSealed(ctx, "v"); err != nil {
		t.Errorf("a seal while gc waits for an import: %v", err)
	}
	select {
	case err := <-gc:
		t.Errorf("gc did not wait for the import: %v", err)
	default:
	}
	done()
	if err := <-gc; err != nil {
		t.Error(err)
	}
}
