package catalogue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestRecordsOfTheCatalogueAreBounded: a policy, a message and an image have no more bytes than
// the catalogue has room for. The greatest are there after a checkpoint and a new start; greater
// ones are refused, and the next checkpoint succeeds.
func TestRecordsOfTheCatalogueAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := stores.Open(t, dir)
	w := s.Main()
	patch := func(n int) error { // each path takes 12 bytes of JSON
		paths := make([]string, n)
		for i := range paths {
			paths[i] = fmt.Sprintf("%q", fmt.Sprintf("<%03x", i%4096))
		}
		_, err := w.PatchPolicy([]byte(`{"restore_keeps":[`+strings.Join(paths, ",")+`]}`), actors.Caller{})
		return err
	}
	if err := patch(policy.MaxPolicyBytes / 12); !errors.Is(err, errs.TooBig) {
		t.Errorf("a policy that is too large: %v", err)
	}
	if err := patch(policy.MaxPolicyBytes/12 - 200); err != nil {
		t.Error("the greatest policy:", err)
	}
	actors := make([]string, 3000)
	for i := range actors {
		actors[i] = fmt.Sprintf("%0128d", i)
	}
	for i, name := range actors {
		_, err := s.Forest().WithActor(name).Create(w.Root(), fmt.Sprint("f", i), live.NewNode{Mode: 0o100644})
		must.OK(t, err)
	}
	graft := func(n int) error {
		st, release, err := w.SealPresent(t.Context())
		must.OK(t, err)
		defer release()
		env := make([]string, n/12)
		for i := range env {
			env[i] = "<>\n"[i%3:][:1] + fmt.Sprintf("%03x", i%4096)
		}
		_, err = w.Graft(t.Context(), snapshot.GraftOptions{Tree: st, Image: &info.Image{Ref: "x", Env: env}})
		return err
	}
	if err := graft(3 << 20); !errors.Is(err, errs.TooBig) {
		t.Errorf("an image that is too large: %v", err)
	}
	if err := graft(1<<20 - 1000); err != nil {
		t.Error("the greatest image:", err)
	}
	if _, err := w.Capture(snapshot.CaptureOptions{Name: "message", Message: strings.Repeat("<", naming.MaxDescriptionBytes)}); err != nil {
		t.Error("the greatest message:", err)
	}
	must.OK(t, s.Checkpoint(t.Context()))
	texts := func(w *snapshot.Workspace) (n []int) {
		n = append(n, len(w.Policy().RestoreKeeps))
		for _, i := range w.List() {
			n = append(n, len(i.Message), len(i.Actors))
			if i.Image != nil {
				n = append(n, len(i.Image.Env))
			}
		}
		return n
	}
	want := texts(w)
	must.OK(t, s.Close())
	s = stores.Open(t, dir)
	if got := texts(s.Main()); !slices.Equal(got, want) {
		t.Errorf("the lengths of texts are %d, were %d", got, want)
	}
}
