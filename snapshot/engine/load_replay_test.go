package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// sizes are those that a store counts as it goes: the bytes of all states, and those that
// each fork has of its own, counted since the last change.
func sizes(t *testing.T, s *snapshot.Store) map[string]int64 {
	t.Helper()
	total := int64(0)
	out := map[string]int64{}
	for _, w := range stores.Workspaces(s) {
		st, err := w.State()
		must.OK(t, err)
		total += st.Bytes
		for _, i := range append(w.List(), stores.Find(t, w, "base")) {
			total += i.Bytes
		}
		if w.IsFork() && !w.Parent().IsFork() {
			out[w.Name()], _ = w.Quota().Usage()
		}
	}
	if got := s.Main().Status().ReferencedBytes; got != total {
		t.Errorf("all states have %d bytes, and count %d", total, got)
	}
	return out
}

// TestRecoveryComesToTheSame kills a store at many moments (it copies the
// directory and opens the copy) and compares everything.
func TestRecoveryComesToTheSame(t *testing.T) {
	seeds, rounds := stores.FromEnv("SEEDS", 4), 12
	if !long {
		seeds, rounds = 1, 4
	}
	for i := 2 * stores.FromEnv("SEED", 0); i < 2*seeds; i++ {
		seed, many := i/2, i%2*3 // 3: nearly every restore seals
		t.Run(fmt.Sprintf("%d,%d", seed, many), func(t *testing.T) {
			dir := t.TempDir()
			s, err := snapshot.Open(filepath.Join(dir, "store"), snapshot.Options{MaxJournaledSteps: many})
			must.OK(t, err)
			t.Cleanup(func() { s.Close() })
			stores.KeepAll(t, s)
			x := &stores.Walker{T: t, R: rand.New(rand.NewPCG(uint64(seed), 7)), S: s}
			for round := range rounds {
				for range 40 {
					ws := stores.Workspaces(s)
					sort.Slice(ws, func(i, j int) bool { return ws[i].View() < ws[j].View() })
					if err := x.Step(ws[x.R.IntN(len(ws))]); !stores.Expected(err) {
						t.Fatal(err)
					}
					if x.R.IntN(6) == 0 {
						if err := x.History(); !stores.Expected(err) {
							t.Fatal(err)
						}
					}
				}
				want := stores.Portrait(t, s)
				dead := filepath.Join(dir, fmt.Sprint("dead", round))
				must.CopyStore(t, dead, filepath.Join(dir, "store"))
				o, err := snapshot.Open(dead, snapshot.Options{Quiet: true})
				must.OK(t, err)
				stores.Compare(t, fmt.Sprint("round ", round), stores.Portrait(t, o), want)
				full := sizes(t, o) // counted for the first time
				for name, n := range sizes(t, s) {
					if n < full[name] {
						t.Errorf("round %d: fork %s has %d bytes of its own, and is taken to have %d at the most", round, name, full[name], n)
					}
				}
				await.True(t, "forks are counted as for the first time", func() bool { return maps.Equal(sizes(t, s), full) })
				must.OK(t, o.Close())
				if o, err = snapshot.Open(dead, snapshot.Options{Quiet: true}); err != nil {
					t.Fatal(err)
				}
				stores.Compare(t, fmt.Sprint("reopened in round ", round), stores.Portrait(t, o), want)
				o.Close()
				os.RemoveAll(dead)
			}
		})
	}
}

// long reports whether the exhaustive forms of the tests are asked for; the others
// take samples.
var long = os.Getenv("AMBERFS_TEST_LONG") != ""
