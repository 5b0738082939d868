package snapshot_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/tests/must"
)

func TestGCMarksAsEachStateAlone(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	keepAll(t, s)
	x := &walker{t: t, r: rand.New(rand.NewPCG(5, 40)), s: s}
	for round := range 6 {
		for range 60 {
			ws := s.Workspaces()
			if err := x.step(ws[x.r.IntN(len(ws))]); !expected(err) {
				t.Fatal(err)
			}
			if x.r.IntN(3) == 0 {
				if err := x.history(); !expected(err) {
					t.Fatal(err)
				}
			}
		}
		must.OK(t, s.Checkpoint(ctx))
		for removed := int64(1); removed > 0; { // what a checkpoint of a gc puts stays for the next
			res, err := s.GC(ctx, nil)
			must.OK(t, err)
			removed = res.Removed
		}
		needed, err := s.Reachable(ctx)
		must.OK(t, err)
		there := map[cas.Hash]bool{}
		must.OK(t, s.CAS().EachObjectSize(func(h cas.Hash, _ int64) { there[h] = true }))
		what := fmt.Sprintf("round %d: %d objects", round, len(there))
		for h := range needed {
			if !there[h] {
				t.Errorf("%s: %s is needed and gone", what, h)
			}
		}
		for h := range there {
			if !needed[h] {
				t.Errorf("%s: %s is there and not needed", what, h)
			}
		}
		if round%2 == 0 {
			x.s = afterKill(t, x.s, dir)
			s = x.s
		}
	}
}
