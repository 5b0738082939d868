package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestUndoByAgain undoes an actor several times in random histories, some of them after the
// undo before was itself undone, or an older state was restored. Nobody else touches what the
// actor did, so the workspace is each time as it is without all that the actor ever did. Only
// after a restore of an older state there may be conflicts.
func TestUndoByAgain(t *testing.T) {
	s, err := snapshot.Open(t.TempDir(), snapshot.Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	main := editor{s: s, w: s.Main()}
	for i, p := range []string{"a0", "a1", "b0", "b1", "t"} {
		must.OK(t, main.do(edit{"start", []string{"binary", "text"}[i/4], p, "", i}))
	}
	main.capture(t, "start")
	again, restored := 0, 0
	seeds := []int{1159, 2463, 5759, 7615, 7699} // a file moves to where a copy of what it was is after a restore
	for seed := range harness.Count(t, "UNDOS", 100, 20_000) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		rnd := rand.New(rand.NewPCG(1, uint64(seed)))
		eds := []*editor{{s: s, w: s.Main()}, {s: s, w: s.Main()}} // with a, and without
		eds[0].fork(t, "with", "start")
		eds[1].fork(t, "without", "start")
		older := seed%4 == 3 // histories with such restores
		undo := func() snapshot.UndoByResult {
			o := snapshot.UndoByOptions{Actor: "a", Merge: mergeLines, Caller: actors.Caller{Actor: []string{"lead", "a"}[seed/4%2]}}
			done, err := eds[0].w.Snapshots().UndoBy(context.Background(), o)
			if older && errors.Is(err, threeway.ErrConflict) {
				return done
			}
			if err != nil {
				t.Fatalf("seed %d: %v: %v", seed, err, done.Conflicts)
			}
			if got, want := eds[0].lines(t, eds[0].state(t)), eds[1].lines(t, eds[1].state(t)); !maps.Equal(got, want) {
				t.Fatalf("seed %d: %v instead of %v", seed, got, want)
			}
			if more, err := eds[0].w.Snapshots().UndoBy(context.Background(), o); !older && err != nil || more.Changed > 0 {
				t.Fatalf("seed %d: the same undo at once changes %v: %v", seed, more.Paths, err)
			}
			return done
		}
		made := 0
		for range 3 {
			for n := range 4 + rnd.IntN(12) {
				by := []string{"a", "b"}[rnd.IntN(2)]
				if n == 0 {
					by = "a" // so that there is something to undo
				}
				x := edit{actor: by, path: fmt.Sprint(by, rnd.IntN(2)), other: fmt.Sprint(by, rnd.IntN(2)), n: rnd.IntN(100)}
				x.what = []string{"binary", "save", "chmod", "rm", "mv", "xattr"}[rnd.IntN(6)]
				if rnd.IntN(3) == 0 { // lines of one file, which are not next to each other
					x.what, x.path, x.n = "line", "t", map[string]int{"a": 0, "b": 5}[by]+9*rnd.IntN(9)+rnd.IntN(3)
				}
				for i, e := range eds {
					if i == 0 || by == "b" {
						_ = e.do(x) // of a missing file
					}
				}
				if x.path == "t" || rnd.IntN(2) == 0 { // lines of two actors in one interval are a conflict
					for _, e := range eds {
						e.capture(t, fmt.Sprint("s", made))
					}
					made++
				}
			}
			done := undo()
			switch what := rnd.IntN(4); {
			case older && what == 0 && made > 0:
				name := fmt.Sprint("s", rnd.IntN(made))
				for _, e := range eds {
					_, err = e.w.Restore(context.Background(), snapshot.RestoreOptions{Name: name})
					must.OK(t, err)
				}
				restored += undo().Changed
			case what < 2 && done.Undo != "":
				_, err = eds[0].w.Restore(context.Background(), snapshot.RestoreOptions{Name: done.Undo})
				must.OK(t, err)
				again += undo().Changed
			}
		}
		for _, name := range []string{"with", "without"} {
			must.OK(t, s.Main().Forks().Discard(name, actors.Caller{}))
		}
	}
	if again == 0 || restored == 0 {
		t.Errorf("%d and %d changes were undone again", again, restored)
	}
}
