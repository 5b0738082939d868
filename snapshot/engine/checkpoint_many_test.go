package engine_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/tests/must"
)

// TestMuchToWriteDown: a checkpoint may have any number of snapshots to write down,
// and what is said about one of them is bounded.
func TestMuchToWriteDown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	must.OK(t, err)
	long := strings.Repeat("x", naming.MaxDescriptionBytes)
	const many = 300
	for i := range many {
		_, err = s.Main().Capture(snapshot.CaptureOptions{Name: fmt.Sprint("s", i), Message: long})
		must.OK(t, err)
	}
	for _, o := range []snapshot.CaptureOptions{
		{Message: long + "x"}, {Labels: map[string]string{"k": long}}, {Message: long[1:], Labels: map[string]string{"k": "v"}},
	} {
		if _, err := s.Main().Capture(o); !errors.Is(err, errs.Invalid) {
			t.Errorf("a longer description: %v", err)
		}
	}
	for range 2 {
		if err := s.Checkpoint(context.Background()); err != nil {
			t.Error(err)
		}
		must.OK(t, s.Close())
		if s, err = snapshot.Open(dir, snapshot.Options{Quiet: true}); err != nil {
			t.Fatal(err)
		}
		if n := len(s.Main().List()); n != many {
			t.Errorf("%d snapshots", n)
		}
	}
	s.Close()
}
