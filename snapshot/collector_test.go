package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
)

// TestNobodyWaitsForADueGC: automatic captures go on while a gc has to wait, and
// one that is due does not wait for an import, with all checkpoints behind it.
func TestNobodyWaitsForADueGC(t *testing.T) {
	t.Parallel()
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := s.Main()
	p := w.Policy()
	p.IntervalSeconds = 1
	if err := w.SetPolicy(p, actors.Caller{}); err != nil {
		t.Fatal(err)
	}

	done := sync.OnceFunc(s.Importing())
	defer done()
	locked, release := make(chan struct{}), make(chan struct{})
	unlock := sync.OnceFunc(func() { close(release) })
	defer unlock()
	go s.ckpt.Alone(t.Context(), func() error {
		close(locked)
		<-release
		return nil
	})
	await.Receive(t, "no checkpoint is made", locked)
	s.room.Stored.Store(1 << 40)
	s.gc.Removed() // else the check whether gc is due does not run
	done()
	await.Blocked(t, 1, "(*Collector).collect")
	before := len(w.List())
	if _, err := s.Forest().Create(w.Root(), "file", live.Create{Mode: unix.S_IFREG | 0o644}); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	done := sync.OnceFunc(s.Importing())
	defer done()
	orphan, err := s.CAS().Put(cas.KindData, []byte("what the import brings"))
	if err != nil {
		t.Fatal(err)
	}
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
