package snapshot_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestCheckpointsOfHistories: after random histories the last checkpoint has every workspace as
// it is, whichever of them it wrote.
func TestCheckpointsOfHistories(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	r := rand.New(rand.NewPCG(uint64(stores.FromEnv("SEED", 3)), 45))
	held := make(map[live.NodeID]bool)
	open := func() *snapshot.Store {
		s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
		must.OK(t, err)
		clear(held)
		s.Forest().Takeover.SetMount(live.Mount{IsHeld: func(id live.NodeID) bool { return held[id] }})
		return s
	}
	x := &stores.Walker{T: t, R: r, S: open()}
	stores.KeepAll(t, x.S)
	for range stores.FromEnv("ROUNDS", 40) {
		for range r.IntN(12) {
			ws := stores.Workspaces(x.S)
			w := ws[r.IntN(len(ws))]
			err := x.Step(w)
			switch _, id, _, ok := x.Node(w, false); r.IntN(8) {
			case 0:
				if ok {
					held[id] = true
				}
			case 1:
				for id := range held {
					delete(held, id)
					x.S.Forest().Takeover.Forget(id)
				}
			case 2:
				_, err = w.PatchPolicy(fmt.Appendf(nil, `{"expire_seconds":%d}`, x.N), actors.Caller{})
			case 3:
				if p := w.Parent(); p != nil {
					err = p.Forks().Rename(w.Name(), fmt.Sprint("renamed", x.N), actors.Caller{})
				}
			case 4:
				err = x.History()
			}
			if !stores.Expected(err) {
				t.Fatal(err)
			}
		}
		if r.IntN(5) == 0 {
			must.OK(t, x.S.Close())
			x.S = open()
		}
		must.OK(t, x.S.Checkpoint(ctx))
		x.S.SameAsStored(t)
	}
	must.OK(t, x.S.Close())
}
