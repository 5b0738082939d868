package catalogue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestForkLimits: what the policy of main allows each fork holds, and a fork's own
// policy does not matter.
func TestForkLimits(t *testing.T) {
	s := stores.Open(t, t.TempDir())
	w := s.Main()
	_, err := w.PatchPolicy([]byte(`{"forks":{"snapshots":3,"text_bytes":100}}`), actors.Caller{})
	must.OK(t, err)
	f, err := w.Forks().New(snapshot.ForkOptions{Name: "f"})
	must.OK(t, err)
	_, err = f.PatchPolicy([]byte(`{"forks":{"snapshots":1000,"text_bytes":100000}}`), actors.Caller{})
	must.OK(t, err)
	capture := func(w *snapshot.Workspace, name, message string) error {
		_, err := w.Capture(snapshot.CaptureOptions{Name: name, Message: message, Labels: map[string]string{"k": "v"}})
		return err
	}
	if err := capture(f, "long", strings.Repeat("x", 99)); !errors.Is(err, errs.Quota) {
		t.Errorf("a message beyond the limit: %v", err)
	}
	for i := range 3 {
		must.OK(t, capture(f, fmt.Sprintf("s%d", i), strings.Repeat("x", 30)))
	}
	if err := capture(f, "s3", ""); !errors.Is(err, errs.Quota) {
		t.Errorf("a snapshot beyond the limit: %v", err)
	}
	_, err = f.Snapshots().DeleteAll([]string{"s0"}, actors.Caller{})
	must.OK(t, err)
	if err := capture(f, "s4", strings.Repeat("x", 40)); !errors.Is(err, errs.Quota) {
		t.Errorf("messages that are too long together: %v", err)
	}
	if err := capture(f, "s4", ""); err != nil {
		t.Error("there is room again:", err)
	}
	for i := range 5 {
		if err := capture(w, fmt.Sprintf("m%d", i), strings.Repeat("x", 99)); err != nil {
			t.Error("main is bounded:", err)
		}
	}
}
