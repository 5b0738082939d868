package snapshot_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestPowerCutsOfTheWholeStore: the disk forgets at a random operation of any
// sort, in the middle of a write, a seal, a checkpoint, gc. The state
// afterwards is that after one of the steps: not before the last that was
// synced, nothing in part, nothing out of order.
func TestPowerCutsOfTheWholeStore(t *testing.T) {
	seeds := stores.FromEnv("SEEDS", 5)
	if !long {
		seeds = 1
	}
	for i := 2 * stores.FromEnv("SEED", 0); i < 2*seeds; i++ {
		seed, away := i/2, i%2*3 // 3: most of what a seal wants to read it cannot
		t.Run(fmt.Sprintf("%d,%d", seed, away), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			rnd := rand.New(rand.NewPCG(uint64(seed), 9))
			mem := vfstest.NewMem()
			var ops atomic.Int64
			var at int64 // the operation at which power fails; 0: never
			var left *vfstest.Mem
			index := filepath.Join(t.TempDir(), "index")
			before := func() {}
			cut := func() error {
				if ops.Add(1) == at {
					before()
					left = mem.CrashClone([]float64{0, 0.3, 0.7, 1}[rnd.IntN(4)], rnd)
					copyDir(t, filepath.Join(dir, "index"), index)
				}
				return nil
			}
			s, err := stores.OpenOn(dir, stores.AskingDisk{FS: mem, Ask: cut})
			must.OK(t, err)
			s.SealThrough(&flaky{Store: s.CAS(), r: rand.New(rand.NewPCG(uint64(seed), 11)), share: away})
			stores.KeepAll(t, s)
			must.OK(t, s.Sync())
			d := &stores.Diary{Look: func(s *snapshot.Store) string { return stores.Digest(t, s) }}
			d.Note(stores.Digest(t, s))
			x := &stores.Walker{T: t, R: rand.New(rand.NewPCG(uint64(seed), 10)), S: s}
			sure := 0
			at = ops.Load() + 1 + rnd.Int64N(250*int64(1+away))
			before = func() { sure = d.Sure }
			for left == nil {
				must.OK(t, stores.RandomSteps(t, x, d, 1))
			}
			must.OK(t, s.Close())
			must.OK(t, os.RemoveAll(filepath.Join(dir, "index")))
			if rnd.IntN(2) == 0 { // or else it is lost
				copyDir(t, index, filepath.Join(dir, "index"))
			}
			if s, err = stores.OpenOn(dir, left); err != nil {
				t.Fatalf("after the power cut: %v", err)
			}
			defer s.Close()
			if i := slices.Index(d.Pages[sure:], stores.Digest(t, s)); i < 0 {
				if i := slices.Index(d.Pages, stores.Digest(t, s)); i >= 0 {
					t.Fatalf("the power cut took the store back to step %d of %d; %d was synced", i, len(d.Pages), sure)
				}
				t.Fatal("what the power cut left is no state that there ever was")
			}
		})
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	must.CopyStore(t, to, from)
}
