package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
)

// TestUndoByOfFastActors: two actors alternate as fast as they can. An undo of one keeps what
// the other did, or it is a conflict that touches nothing.
func TestUndoByOfFastActors(t *testing.T) {
	s, err := snapshot.Open(t.TempDir(), snapshot.Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	files := []string{"a", "b", "c"}
	clean, conflicts := 0, 0
	histories := 40
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		histories = 1000
	}
	for seed := range histories {
		rnd := rand.New(rand.NewPCG(2, uint64(seed)))
		e := editor{s: s, w: s.Main(), actor: "x"}
		e.forkAs(t, "h")
		full, without := map[string][]string{}, map[string][]string{}
		write := func(actor, name string, lines []string) {
			e.actor = actor
			f := e.forest()
			a, err := f.Lookup(e.w.Root(), name)
			if err == nil {
				_, err = f.Write(a.ID, []byte(strings.Join(lines, "\n")+"\n"), 0, false)
			}
			must.OK(t, err)
		}
		for _, name := range files {
			full[name] = strings.Split(strings.Repeat("0", 20), "")
			without[name] = slices.Clone(full[name])
			must.OK(t, e.make(name, strings.Join(full[name], "\n")+"\n"))
		}
		e.captureAs(t, "begin")
		by := map[string]map[string]bool{}
		for n := range 2 + rnd.IntN(8) {
			name, actor := files[rnd.IntN(len(files))], []string{"alice", "bob"}[rnd.IntN(2)]
			line := 5 * rnd.IntN(2) // lines of alice, and of bob
			if actor == "bob" {
				line += 10
				without[name][line] = fmt.Sprint(n%9 + 1)
			}
			full[name][line] = fmt.Sprint(n%9 + 1)
			if by[name] == nil {
				by[name] = map[string]bool{}
			}
			by[name][actor] = true
			write(actor, name, full[name])
			if rnd.IntN(3) == 0 {
				e.captureAs(t, fmt.Sprint("s", n))
			}
		}
		check := func(what string, want map[string][]string, but []string) {
			for _, name := range files {
				got := linesOf(t, e)[name]
				if w := fmt.Sprintf("%q", strings.Join(want[name], "\n")+"\n"); !strings.Contains(got, w) && !slices.Contains(but, name) {
					t.Errorf("history %d, %s: %s is %s and not %s", seed, what, name, got, w)
				}
			}
		}
		o := snapshot.UndoByOptions{Actor: "alice", Merge: diff.Merger{}.Merge}
		done, err := e.w.Snapshots().UndoBy(t.Context(), o)
		switch {
		case errors.Is(err, threeway.ErrConflict):
			conflicts++
			for _, name := range done.Conflicts {
				if len(by[name]) != 2 {
					t.Errorf("history %d: %s is a conflict, and not both changed it", seed, name)
				}
			}
			check("in conflict", full, nil)
			if o.Ours = rnd.IntN(2) == 0; o.Ours {
				_, err = e.w.Snapshots().UndoBy(t.Context(), o)
				check("ours", without, done.Conflicts)
			} else {
				o.Theirs = true
				_, err = e.w.Snapshots().UndoBy(t.Context(), o)
				check("theirs", without, done.Conflicts)
			}
			if err != nil {
				t.Error(err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			clean++
			check("undone", without, nil)
		}
		must.OK(t, s.Main().Forks().Discard("h", actors.Caller{}))
	}
	if clean == 0 || conflicts == 0 {
		t.Errorf("%d undone, %d in conflict", clean, conflicts)
	}
}
