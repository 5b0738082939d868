package repair_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestCatalogueLacksACommit: a store of whose catalogue both copies have lost the same
// commit does not open as it was before that. A repair opens it so, and keeps both files.
func TestCatalogueLacksACommit(t *testing.T) {
	s, dir := stores.Quiet(t)
	ctx := context.Background()
	for _, name := range []string{"v1", "v2", "v3"} {
		stores.Write(t, s, s.Main().Root(), "f", name)
		stores.Capture(t, s.Main(), name)
		must.OK(t, s.Checkpoint(ctx))
	}
	must.OK(t, s.Close())
	for _, name := range []string{"manifest", "manifest.copy"} {
		name = filepath.Join(dir, name)
		b, err := os.ReadFile(name)
		must.OK(t, err)
		last := bytes.LastIndex(b, []byte("amMF"))
		second := bytes.LastIndex(b[:last], []byte("amMF"))
		b[second+40] ^= 1
		must.OK(t, os.WriteFile(name, b, 0o600))
	}
	if _, err := snapshot.Open(dir, snapshot.Options{}); !errors.Is(err, errs.Damaged) {
		t.Fatalf("open: %v", err)
	}
	if r, err := snapshot.Check(ctx, dir, snapshot.Options{}, nil); err != nil || r.OK() {
		t.Fatalf("check: %+v, %v", r, err)
	}
	_, err := snapshot.Repair(ctx, dir, snapshot.Options{}, nil)
	must.OK(t, err)
	s = stores.Open(t, dir)
	if _, err := s.Main().Find("v1"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"manifest", "manifest.copy"} {
		if found, _ := filepath.Glob(filepath.Join(dir, "quarantine", name+"-*")); len(found) != 1 {
			t.Errorf("%s was not kept", name)
		}
	}
}
