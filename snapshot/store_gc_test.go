package snapshot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// TestNobodyWaitsForADueGC: automatic captures go on while a gc has to wait, and
// one that is due does not wait for an import, with all checkpoints behind it.
func TestNobodyWaitsForADueGC(t *testing.T) {
	t.Parallel()
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
	must.OK(t, err)
	defer s.Close()
	w := s.Main()
	p := w.Policy()
	p.IntervalSeconds = 1
	must.OK(t, w.SetPolicy(p, actors.Caller{}))

	done := sync.OnceFunc(s.BeginImport())
	defer done()
	locked, release := make(chan struct{}), make(chan struct{})
	unlock := sync.OnceFunc(func() { close(release) })
	defer unlock()
	go s.ckpt.RunAlone(t.Context(), func() error {
		close(locked)
		<-release
		return nil
	})
	await.Receive(t, "no checkpoint is made", locked)
	s.room.StoredBytes.Store(1 << 40)
	s.gc.CountRemoval(0) // else the check whether gc is due does not run
	done()
	await.Blocked(t, 1, "(*Collector).runRound")
	before := len(w.List())
	_, err = s.Forest().Create(w.Root(), "file", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	await.True(t, "an automatic capture while a gc waits", func() bool { return len(w.List()) > before })
	unlock()
	if _, err := s.GC(context.Background(), nil); err != nil {
		t.Error(err)
	}
}

// TestNobodyWaitsForAGCThatWaits: a gc that waits for an import does not keep programs from
// checkpoints and verifications, and ends with its context.
func TestNobodyWaitsForAGCThatWaits(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
	must.OK(t, err)
	defer s.Close()
	done := sync.OnceFunc(s.BeginImport())
	defer done()
	orphan, err := s.CAS().Put(cas.KindData, []byte("what the import brings"))
	must.OK(t, err)
	within := func(what string, fn func(ctx context.Context) error) {
		t.Helper()
		ended := make(chan error, 1)
		go func() { ended <- fn(context.Background()) }()
		if err := await.Receive(t, what+", while a gc waits for an import", ended); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	for range 2 { // also after one that was given up
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			_, err := s.GC(ctx, nil)
			ended <- err
		}()
		await.Blocked(t, 1, "(*Barrier).Wait") // for the import
		within("a checkpoint", s.Checkpoint)
		within("a verification", func(ctx context.Context) error {
			_, err := s.Verify(ctx, nil)
			return err
		})
		cancel()
		within("the end of gc", func(context.Context) error {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				return fmt.Errorf("gc ended with %v", err)
			}
			return nil
		})
	}
	if there, err := s.CAS().Has(orphan); err != nil || !there {
		t.Error("what an import put is gone", err)
	}
	done()
	within("a gc after the import", func(ctx context.Context) error {
		_, err := s.GC(ctx, nil)
		return err
	})
	within("a gc", func(ctx context.Context) error {
		_, err := s.GC(ctx, nil)
		return err
	})
	if there, err := s.CAS().Has(orphan); err != nil || there {
		t.Error("what nothing refers to is not removed", err)
	}
}

// TestSmallRemovalsAreGathered: a policy that removes small snapshots all day has one gc a day,
// and what is large is given back at once.
func TestSmallRemovalsAreGathered(t *testing.T) {
	ctx := context.Background()
	var clock time.Duration
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true, Elapsed: func() time.Duration { return clock }})
	must.OK(t, err)
	defer s.Close()
	w, gcs := s.Main(), 0
	file := func(name string, bytes int) {
		at, err := s.Forest().Create(w.Root(), name, live.NewNode{Mode: unix.S_IFREG | 0o644})
		if err == nil {
			content := make([]byte, bytes)
			for i := range content {
				content[i] = byte(rand.Uint32())
			}
			_, err = s.Forest().Write(at.ID, content, 0, false)
		}
		must.OK(t, err)
	}
	capture := func(name string) {
		_, err := w.Capture(CaptureOptions{Name: name})
		if err == nil {
			_, err = w.Snapshots().WaitSealed(ctx, name)
		}
		must.OK(t, err)
	}
	remove := func(name string) {
		must.OK(t, w.Snapshots().Delete(name, actors.Caller{}))
		clock += 5 * time.Minute
		if s.gc.IsDue() {
			gcs++
			_, err := s.GC(ctx, nil)
			must.OK(t, err)
		}
	}
	file("kept", 4<<20)
	capture("kept")
	file("large", 2<<20)
	if err := s.Checkpoint(ctx); err != nil { // it stores the file, and so the snapshot adds nothing
		t.Fatal(err)
	}
	capture("large")
	_, err = s.Forest().Unlink(w.Root(), "large")
	must.OK(t, err)
	_, err = s.GC(ctx, nil)
	must.OK(t, err)
	for i := range 48 {
		name := fmt.Sprint("small", i)
		file(name, 100)
		capture(name)
		remove(name)
	}
	if gcs != 0 {
		t.Errorf("%d of 48 small removals in four hours had a gc run", gcs)
	}
	if remove("large"); gcs != 1 {
		t.Errorf("%d gcs after the removal of a third of the store, want 1", gcs)
	}
}

// whileReading calls fn at each object that is read.
type whileReading struct {
	content.ObjectStore
	fn func()
}

func (w whileReading) Get(h cas.Hash, dst []byte) ([]byte, error) {
	w.fn()
	return w.ObjectStore.Get(h, dst)
}

// whileMarking calls fn at each object that a gc keeps.
type whileMarking struct{ fn func() }

func (w whileMarking) HasAny() bool {
	w.fn()
	return false
}

func (whileMarking) Has(cas.Hash) (bool, error) { return false, nil }

func (whileMarking) Get(cas.Hash, []byte) ([]byte, error) { return nil, cas.ErrNotFound }

func (whileMarking) GetLocal(cas.Hash, []byte) ([]byte, error) { return nil, cas.ErrNotFound }

// WhileMarking has fn called at each object that a gc keeps, or nothing.
func (s *Store) WhileMarking(fn func()) {
	if s.gc.Objects.Remote = nil; fn != nil {
		s.gc.Objects.Remote = whileMarking{fn}
	}
}

// TestCheckpointsDuringAGC: a writer on a nearly full disk has the journal sealed while a gc
// marks, and while it sweeps.
func TestCheckpointsDuringAGC(t *testing.T) {
	ctx := t.Context()
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	file := fill(t, s, "file", 1, 'a')
	_, err = s.Main().Capture(CaptureOptions{Name: "one"})
	must.OK(t, err)
	must.OK(t, s.Checkpoint(ctx))
	fill(t, s, "file", 1, 'b')
	must.OK(t, s.Checkpoint(ctx))
	must.OK(t, s.Main().Snapshots().Delete("one", actors.Caller{}))
	n, made := 0, map[string]int{}
	try := func(during string) {
		n++
		_, err := s.forest.Write(file, fmt.Append(nil, n), int64(n), false)
		must.OK(t, err)
		if !s.ckpt.TryCheckpoint() || s.ckpt.JournalGrowth() > 0 {
			t.Errorf("no checkpoint during the %s of a gc", during)
		}
		made[during]++
	}
	s.WhileMarking(func() { try("mark") })
	res, err := s.GC(ctx, func(int64, int64) { try("sweep") })
	must.OK(t, err)
	if res.RemovedObjects == 0 || made["mark"] == 0 || made["sweep"] == 0 {
		t.Errorf("%+v, %v", res, made)
	}
	needed, err := s.Reachable(ctx)
	must.OK(t, err)
	for h := range needed {
		if there, err := s.cas.Has(h); err != nil || !there {
			t.Errorf("%s is needed and gone: %v", h, err)
		}
	}
}

// TestRemovalDuringAGC: what is removed during the checkpoint of a gc makes another one due.
func TestRemovalDuringAGC(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	var file live.NodeID
	for _, name := range []string{"one", "two"} {
		file = fill(t, s, "file", 1, name[0])
		_, err = s.Main().Capture(CaptureOptions{Name: name})
		must.OK(t, err)
	}
	must.OK(t, s.Main().Snapshots().Delete("one", actors.Caller{}))
	must.OK(t, s.Checkpoint(t.Context()))
	_, err = s.forest.Write(file, []byte("new"), 1<<19, false) // its seal reads what is around
	must.OK(t, err)
	n := 0
	s.SealThrough(whileReading{s.objects, func() {
		if n++; n == 1 {
			must.OK(t, s.Main().Snapshots().Delete("two", actors.Caller{}))
		}
	}})
	_, err = s.GC(t.Context(), nil)
	must.OK(t, err)
	if n == 0 || !s.gc.HasGarbage() {
		t.Error("the removal is forgotten")
	}
	_, err = s.GC(t.Context(), nil)
	must.OK(t, err)
	if s.gc.HasGarbage() {
		t.Error("what a gc took away is to be taken away again")
	}
}
