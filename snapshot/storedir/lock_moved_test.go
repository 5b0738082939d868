package storedir_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// churn makes a store write to all of its files: journal segments, packs, index.
func churn(t *testing.T, s *snapshot.Store) {
	t.Helper()
	ctx := context.Background()
	big := strings.Repeat("0123456789abcdef", 1<<16)
	for i := range 80 { // more than a segment
		stores.Write(t, s, s.Main().Root(), "big", big[i:])
	}
	_, err := s.Main().Capture(snapshot.CaptureOptions{Name: "churned"})
	must.OK(t, err)
	must.OK(t, s.Checkpoint(ctx))
	_, err = s.Main().Snapshots().DeleteAll([]string{"churned"}, actors.Caller{})
	must.OK(t, err)
	_, err = s.GC(ctx, nil)
	must.OK(t, err)
}

func intact(t *testing.T, s *snapshot.Store, content string) {
	t.Helper()
	stores.Want(t, "f", stores.Read(t, s, s.Main().Root(), "f"), content)
	r, err := s.Verify(context.Background(), nil)
	if err != nil || !r.OK() {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

// TestMovedStore: a store in use that is moved goes on in its new place, and
// never touches another one in the old.
func TestMovedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	a := stores.Open(t, dir)
	stores.Write(t, a, a.Main().Root(), "f", "a")
	moved := dir + ".moved"
	must.OK(t, os.Rename(dir, moved))
	b := stores.Open(t, dir)
	stores.Write(t, b, b.Main().Root(), "f", "b")
	churn(t, a)
	churn(t, b)
	intact(t, a, "a")
	must.OK(t, a.Close())
	intact(t, b, "b")
	must.OK(t, b.Close())
	intact(t, stores.Open(t, dir), "b")
	intact(t, stores.Open(t, moved), "a")
}

// TestRemovedStore: a store that was removed in use ends without a word to the
// one that came in its place.
func TestRemovedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	a := stores.Open(t, dir)
	stores.Write(t, a, a.Main().Root(), "f", "a")
	_, err := a.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	must.OK(t, os.RemoveAll(dir))
	b := stores.Open(t, dir)
	stores.Write(t, b, b.Main().Root(), "f", "b")
	if err := a.Close(); !errors.Is(err, snapshot.ErrRemoved) {
		t.Errorf("closing a removed store: %v", err)
	}
	churn(t, b)
	intact(t, b, "b")
	must.OK(t, b.Close())
	intact(t, stores.Open(t, dir), "b")
}

// TestLockRemoved: a store in use stays so without its lock file, for all processes that
// wants it, and is closed as ever.
func TestLockRemoved(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	s := stores.Open(t, dir)
	stores.Write(t, s, s.Main().Root(), "f", "a")
	for what, fn := range map[string]func() error{
		"opening": func() error {
			_, err := snapshot.Open(dir, snapshot.Options{})
			return err
		},
		"verifying": func() error {
			_, err := snapshot.Check(ctx, dir, snapshot.Options{}, nil)
			return err
		},
		"repairing": func() error {
			_, err := snapshot.Repair(ctx, dir, snapshot.Options{}, nil)
			return err
		},
	} {
		must.OK(t, os.Remove(filepath.Join(dir, "lock")))
		if err := fn(); !errors.Is(err, errs.Busy) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	intact(t, stores.Open(t, dir), "a")
}

// TestIndexRemoved: a store in use whose index is removed ends, and has everything
// when it is opened again.
func TestIndexRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := stores.Open(t, dir)
	stores.Write(t, s, s.Main().Root(), "f", "a")
	must.OK(t, os.RemoveAll(filepath.Join(dir, "index")))
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	if err := await.Receive(t, "closing", closed); !errors.Is(err, snapshot.ErrRemoved) {
		t.Errorf("closing: %v", err)
	}
	again := dir + ".copy" // the lock is held as long as this process lives
	must.CopyStore(t, again, dir)
	s = stores.Open(t, again)
	if r, err := s.Verify(context.Background(), nil); err != nil || !r.OK() {
		t.Errorf("%+v, %v", r, err)
	}
	intact(t, s, "a")
}

// TestCheckChangesNothing: a verification leaves packs and journal as they are, also
// those of a store that was killed.
func TestCheckChangesNothing(t *testing.T) {
	ctx := context.Background()
	from := filepath.Join(t.TempDir(), "store")
	s := stores.Open(t, from)
	stores.Write(t, s, s.Main().Root(), "f", "a")
	must.OK(t, s.Checkpoint(ctx))
	stores.Write(t, s, s.Main().Root(), "f", "b")
	_, err := s.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	must.OK(t, s.Sync())
	dir := filepath.Join(t.TempDir(), "killed")
	must.CopyStore(t, dir, from)
	sum := func() map[string]cas.Hash {
		sums := make(map[string]cas.Hash)
		for _, folder := range []string{"packs", "journal"} {
			names, err := filepath.Glob(filepath.Join(dir, folder, "*"))
			if err != nil || len(names) == 0 {
				t.Fatal("nothing in", folder, err)
			}
			for _, name := range names {
				if filepath.Base(name) == "reserve" {
					continue
				}
				b, err := os.ReadFile(name)
				must.OK(t, err)
				sums[name] = cas.Sum(b)
			}
		}
		return sums
	}
	before := sum()
	r, err := snapshot.Check(ctx, dir, snapshot.Options{}, nil)
	if err != nil || !r.OK() {
		t.Errorf("%+v, %v", r, err)
	}
	if !maps.Equal(before, sum()) {
		t.Error("packs or journal have changed")
	}
	intact(t, stores.Open(t, dir), "b")
}

// TestErrorsOfTheIndex name the index as users know it, though it is reached through
// the store's open directory.
func TestErrorsOfTheIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	must.OK(t, stores.Open(t, dir).Close())
	index := filepath.Join(dir, "index")
	must.OK(t, os.RemoveAll(index))
	must.OK(t, os.WriteFile(index, nil, 0o600))
	s, err := snapshot.Open(dir, snapshot.Options{})
	if err == nil {
		_ = s.Close()
		t.Fatal("it opens")
	}
	if text := err.Error(); !strings.Contains(text, index) || strings.Contains(text, "/proc/self") {
		t.Errorf("the error is: %s", text)
	}
}
