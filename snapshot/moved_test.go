package snapshot_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// churn makes a store write to all of its files: journal segments, packs, index.
func churn(t *testing.T, s *snapshot.Store) {
	t.Helper()
	ctx := context.Background()
	big := strings.Repeat("0123456789abcdef", 1<<16)
	for i := range 80 { // more than a segment
		write(t, s, s.Main().Root(), "big", big[i:])
	}
	if _, err := s.Main().Capture(ctx, snapshot.CaptureOptions{Name: "churned"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Main().Delete("churned", live.Caller{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GC(ctx, nil); err != nil {
		t.Fatal(err)
	}
}

func intact(t *testing.T, s *snapshot.Store, content string) {
	t.Helper()
	want(t, "f", read(t, s, s.Main().Root(), "f"), content)
	r, err := s.Verify(context.Background(), nil)
	if err != nil || !r.OK() {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

// TestMovedStore: a store in use that is moved goes on in its new place, and
// never touches another one in the old.
func TestMovedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	a := open(t, dir)
	write(t, a, a.Main().Root(), "f", "a")
	moved := dir + ".moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir)
	write(t, b, b.Main().Root(), "f", "b")
	churn(t, a)
	churn(t, b)
	intact(t, a, "a")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	intact(t, b, "b")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	intact(t, open(t, dir), "b")
	intact(t, open(t, moved), "a")
}

// TestRemovedStore: a store that was removed in use ends without a word to the
// one that came in its place.
func TestRemovedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	a := open(t, dir)
	write(t, a, a.Main().Root(), "f", "a")
	if _, err := a.Main().Capture(context.Background(), snapshot.CaptureOptions{Name: "v1"}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir)
	write(t, b, b.Main().Root(), "f", "b")
	if err := a.Close(); !errors.Is(err, snapshot.ErrRemoved) {
		t.Errorf("closing a removed store: %v", err)
	}
	churn(t, b)
	intact(t, b, "b")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	intact(t, open(t, dir), "b")
}
