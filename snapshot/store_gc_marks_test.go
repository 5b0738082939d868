package snapshot_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

func TestGCMarksAsEachStateAlone(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	stores.KeepAll(t, s)
	x := &stores.Walker{T: t, R: rand.New(rand.NewPCG(5, 40)), S: s}
	for round := range 6 {
		for range 60 {
			ws := stores.Workspaces(s)
			if err := x.Step(ws[x.R.IntN(len(ws))]); !stores.Expected(err) {
				t.Fatal(err)
			}
			if x.R.IntN(3) == 0 {
				if err := x.History(); !stores.Expected(err) {
					t.Fatal(err)
				}
			}
		}
		must.OK(t, s.Checkpoint(ctx))
		for removed := int64(1); removed > 0; { // what a checkpoint of a gc puts stays for the next
			res, err := s.GC(ctx, nil)
			must.OK(t, err)
			removed = res.RemovedObjects
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
			x.S = afterKill(t, x.S, dir)
			s = x.S
		}
	}
}
