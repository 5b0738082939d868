package snapshot

import (
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/tests/must"
)

// A store is verified while a snapshot is removed, a file is written over, and gc frees what only
// they referred to. What was intact is not reported as damaged.
func TestVerifyWhileGC(t *testing.T) {
	ctx := t.Context()
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	fill(t, s, "file", 3, 'a')
	_, err = s.Main().Capture(CaptureOptions{Name: "one"})
	must.OK(t, err)
	must.OK(t, s.Checkpoint(ctx))
	fill(t, s, "file", 3, 'b')
	must.OK(t, s.Checkpoint(ctx))
	n := 0
	s.objects.Remote = whileMarking{func() {
		if n++; n != 1 {
			return
		}
		must.OK(t, s.Main().Snapshots().Delete("one", actors.Caller{}))
		fill(t, s, "file", 3, 'c')
		must.OK(t, s.Checkpoint(ctx))
		_, err := s.GC(ctx, nil)
		must.OK(t, err)
	}}
	r, err := s.Verify(ctx, nil)
	must.OK(t, err)
	if n == 0 {
		t.Fatal("nothing was removed during the verification")
	}
	if !r.OK() || s.gc.DamageText() != "" {
		t.Errorf("an intact store is reported as damaged: %+v %+v; health: %s", r.Affected, r.Damage, s.gc.DamageText())
	}
}
