package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
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
func withJournal(t *testing.T, o snapshot.Options) (*snapshot.Store, *nearlyFull, live.NodeID) {
	t.Helper()
	disk := &nearlyFull{FS: vfs.OS}
	o.FS = disk
	s, err := snapshot.Open(filepath.Join(t.TempDir(), "store"), o)
	must.OK(t, err)
	t.Cleanup(func() {
		disk.free.Store(0)
		s.Close()
	})
	data := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	return s, disk, stores.Write(t, s, s.Main().Root(), "file", string(data))
}

// TestCrowdedAndIdle: a store on a nearly full disk writes nothing to it when
// no process writes to the store.
func TestCrowdedAndIdle(t *testing.T) {
	t.Parallel()
	s, disk, _ := withJournal(t, snapshot.Options{})
	disk.free.Store(cas.Headroom + 32<<20 + 9<<20)
	await.True(t, "the journal is small", func() bool { return s.Main().Status().JournalBytes <= 1<<20 })
	free, err := s.FreeBytes()
	must.OK(t, err)
	st := s.Main().Status()
	if n := st.Metrics.Checkpoints; n > 2 || free < st.JournalBytes { // the first made the store
		t.Errorf("%d checkpoints, and there will be more", n)
	}
}

// tries counts how often it was tried without success to make room for a writer.
type tries struct {
	slog.Handler
	n atomic.Int64
}

func (c *tries) Enabled(context.Context, slog.Level) bool { return true }

func (c *tries) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "the journal cannot be sealed") {
		c.n.Add(1)
	}
	return nil
}

// TestFullIsQuick: a program that writes to a full disk on which nothing can be sealed hears
// so at once: it is tried once a second to make room, and not for each write.
func TestFullIsQuick(t *testing.T) {
	var tried tries
	s, disk, id := withJournal(t, snapshot.Options{Logger: slog.New(&tried)})
	disk.free.Store(4096)
	for range 1000 { // what was found free earlier may still be written
		if _, err := s.Forest().Write(id, make([]byte, 4096), 0, false); err != nil {
			break
		}
	}
	if tried.n.Load() == 0 {
		t.Error("nobody tried to make room")
	}
	tried.n.Store(0)
	const writes = 500
	for range writes {
		if _, err := s.Forest().Write(id, make([]byte, 4096), 0, false); !errors.Is(err, errs.NoSpace) {
			t.Fatal(err)
		}
	}
	if n := tried.n.Load(); n > writes/10 {
		t.Errorf("it was tried %d times to make room for %d writes", n, writes)
	}
}

// TestWriterDoesNotWaitForGC: gc waits for a writer of objects, an import for
// instance, and that may wait for a program that writes to a nearly full disk.
func TestWriterDoesNotWaitForGC(t *testing.T) {
	s, disk, id := withJournal(t, snapshot.Options{})
	done := s.BeginImport()
	gc := make(chan error, 1)
	go func() {
		_, err := s.GC(context.Background(), nil)
		gc <- err
	}()
	await.Blocked(t, 1, "(*Barrier).Wait")
	disk.free.Store(cas.Headroom + 32<<20)
	wrote := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = s.Forest().Write(id, make([]byte, 4096), 0, false)
		}
		wrote <- err
	}()
	t.Log(await.Receive(t, "a write, while gc waits for an import", wrote))
	disk.free.Store(0)
	done()
	if err := <-gc; err != nil {
		t.Error(err)
	}
}

// TestSealDoesNotWaitForGC: nor does a seal, or a writer that waits for one.
func TestSealDoesNotWaitForGC(t *testing.T) {
	s := stores.Open(t, filepath.Join(t.TempDir(), "store"))
	stores.Write(t, s, s.Main().Root(), "file", "content")
	done := s.BeginImport()
	gc := make(chan error, 1)
	go func() {
		_, err := s.GC(context.Background(), nil)
		gc <- err
	}()
	await.Blocked(t, 1, "(*Barrier).Wait")
	_, err := s.Main().Capture(snapshot.CaptureOptions{Name: "v"})
	must.OK(t, err)
	sealed := make(chan error, 1)
	go func() {
		_, err := s.Main().Snapshots().WaitSealed(context.Background(), "v")
		sealed <- err
	}()
	if err := await.Receive(t, "a seal while gc waits for an import", sealed); err != nil {
		t.Error(err)
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
