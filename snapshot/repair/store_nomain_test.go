package repair_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestCatalogueWithoutMain: a store whose catalogue has lost the workspace does not
// open, and a repair goes on from the last snapshot.
func TestCatalogueWithoutMain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	must.OK(t, err)
	stores.Write(t, s, s.Main().Root(), "file", "captured")
	_, err = s.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	must.OK(t, s.Close())
	c, err := cas.Open(dir, cas.Options{})
	must.OK(t, err)
	must.OK(t, c.Commit(cas.MetaOp{Key: "ws/00000000", Delete: true}))
	must.OK(t, c.Close())
	if s, err := snapshot.Open(dir, snapshot.Options{Quiet: true}); !errors.Is(err, cas.ErrDamaged) {
		t.Errorf("it opens: %v", err)
		if err == nil {
			s.Close()
		}
	}
	_, err = snapshot.Repair(context.Background(), dir, snapshot.Options{}, nil)
	must.OK(t, err)
	if s, err = snapshot.Open(dir, snapshot.Options{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Main().Find("v1"); err != nil {
		t.Error(err)
	}
	if got := stores.ReadPath(t, s, "file"); got != "captured" {
		t.Errorf("the file is %q", got)
	}
	if i, err := s.Main().Capture(snapshot.CaptureOptions{}); err != nil || i.Seq < 2 {
		t.Error(i, err)
	}
}
