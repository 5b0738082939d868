package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// A flat is a directory of files: the inode that each name leads to, and what inodes are like.
type flat struct {
	names map[string]int
	nodes map[int]value
}

// A value is what a file is like: its permissions and lines.
type value struct {
	mode  uint32
	lines string
}

func (f flat) of(n int) (names []string) {
	for _, p := range slices.Sorted(maps.Keys(f.names)) {
		if f.names[p] == n {
			names = append(names, p)
		}
	}
	return names
}

// identify returns which file of the base each file of a side is, 0 for a new one. A file that
// has kept a name is that of its number. Else the first name, by path, that led to a file which
// has kept none says what the file is in place of. Else, and not by path, it was moved.
func (f flat) identify(base flat, byPath bool) map[int]int {
	kept := func(n int) bool {
		return slices.ContainsFunc(base.of(n), func(p string) bool { return f.names[p] == n })
	}
	is, first := map[int]int{}, map[int]int{}
	for n := range f.nodes {
		if base.nodes[n] != (value{}) && kept(n) {
			is[n] = n
			continue
		}
		for _, p := range f.of(n) {
			if b := base.names[p]; b != 0 && !kept(b) {
				first[n] = b
				break
			}
		}
	}
	gone := map[int]bool{}
	for b := range base.nodes {
		gone[b] = !kept(b)
		for _, p := range base.of(b) {
			if n := f.names[p]; n != 0 && first[n] == b {
				is[n], gone[b] = b, false
				break
			}
		}
	}
	for b := range base.nodes {
		if f.nodes[b] != (value{}) && is[b] == 0 && gone[b] && !byPath {
			is[b] = b
		}
	}
	return is
}

// mergeValues merges what a file is like.
func mergeValues(base, ours, theirs value) (value, bool) {
	ok := true
	if ours.mode == base.mode {
		ours.mode = theirs.mode
	} else {
		ok = theirs.mode == base.mode || theirs.mode == ours.mode
	}
	b, o, t := strings.Fields(base.lines), strings.Fields(ours.lines), strings.Fields(theirs.lines)
	if len(o) != len(b) || len(o) != len(t) {
		return ours, false
	}
	for i := range o {
		if o[i] == b[i] {
			o[i] = t[i]
		} else {
			ok = ok && (t[i] == b[i] || t[i] == o[i])
		}
	}
	ours.lines = strings.Join(o, "\n") + "\n"
	return ours, ok
}

// mergeFlat is the definition of a merge: of names and of inodes separately.
func mergeFlat(base, ours, theirs flat, byPath bool) (out flat, ok bool) {
	out, ok = flat{map[string]int{}, map[int]value{}}, true
	ourIs, theirIs := ours.identify(base, byPath), theirs.identify(base, byPath)
	back := func(is map[int]int, b int) int {
		for n, m := range is {
			if m == b {
				return n
			}
		}
		return 0
	}
	copied := func(f flat, n int) string { // the name at which a new file is a copy
		i := slices.IndexFunc(f.of(n), func(p string) bool { return base.names[p] != 0 })
		if i < 0 {
			return ""
		}
		return f.of(n)[i]
	}
	same := map[int]int{} // files of ours, by those of theirs
	for n := range theirs.nodes {
		if b := theirIs[n]; b != 0 {
			same[n] = back(ourIs, b)
			for _, p := range theirs.of(n) { // a copy in its new place does as well
				if o := ours.names[p]; same[n] == 0 && o != 0 && ourIs[o] == 0 && base.names[p] != b && ours.nodes[o] == theirs.nodes[n] {
					same[n] = o
				}
			}
			continue
		}
		at := copied(theirs, n)
		for _, p := range theirs.of(n) {
			o := ours.names[p]
			if o != 0 && ourIs[o] == 0 && (at == p || at == "" && ours.nodes[o] == theirs.nodes[n]) {
				same[n] = o
				break
			}
		}
	}
	number := func(t int) int { // of the file that a file of theirs is afterwards
		if o := same[t]; o != 0 || t == 0 {
			return o
		}
		return t + 1_000_000
	}
	all := map[string]bool{}
	for _, f := range []flat{base, ours, theirs} {
		for p := range f.names {
			all[p] = true
		}
	}
	for p := range all {
		b, o, t := base.names[p], ours.names[p], theirs.names[p]
		kept := func(is map[int]int, n int) bool { return b == 0 && n == 0 || n != 0 && b != 0 && is[n] == b }
		equal := o != 0 && t != 0 && ours.nodes[o] == theirs.nodes[t]
		switch {
		case kept(theirIs, t), number(t) == o:
			out.names[p] = o
		case kept(ourIs, o):
			out.names[p] = number(t)
		case equal && theirIs[t] == 0:
			out.names[p] = o
		case equal && ourIs[o] == 0:
			out.names[p] = number(t)
		case t != 0 && theirIs[t] == 0 && b != 0 && theirs.nodes[t] == base.nodes[b]:
			out.names[p] = o // theirs only separated it
		case o != 0 && ourIs[o] == 0 && b != 0 && ours.nodes[o] == base.nodes[b]:
			out.names[p] = number(t)
		default:
			ok = false
		}
		if out.names[p] == 0 {
			delete(out.names, p)
		}
	}
	merge := func(n, b, o, t int) {
		var clean bool
		out.nodes[n], clean = mergeValues(base.nodes[b], ours.nodes[o], theirs.nodes[t])
		ok = ok && (clean || len(out.of(n)) == 0)
	}
	for o, v := range ours.nodes {
		out.nodes[o] = v
		if p := copied(ours, o); ourIs[o] == 0 && p != "" && back(theirIs, base.names[p]) != 0 && theirIs[theirs.names[p]] == base.names[p] {
			merge(o, base.names[p], o, theirs.names[p])
		}
	}
	for t, v := range theirs.nodes {
		o, b := same[t], theirIs[t]
		if p := copied(theirs, t); b == 0 && p != "" {
			b = base.names[p]
			if o == 0 && ourIs[ours.names[p]] == b {
				o = ours.names[p]
			}
		}
		if same[t] == 0 {
			out.nodes[number(t)] = v
		}
		if o == 0 || b == 0 {
			continue
		}
		merge(number(t), b, o, t)
	}
	for b, v := range base.nodes {
		o, t := back(ourIs, b), back(theirIs, b)
		for _, p := range base.of(b) {
			switch {
			case o != 0 && ours.names[p] == o && (t == 0 || theirs.names[p] != t): // theirs took the name
				ok = ok && (len(out.of(o)) > 0 || ours.nodes[o] == v)
			case o == 0 && t != 0 && theirs.names[p] == t:
				ok = ok && (len(out.of(number(t))) > 0 || theirs.nodes[t] == v)
			}
		}
		there := theirs.of(t)
		if o == 0 {
			there = slices.DeleteFunc(there, func(p string) bool {
				return base.names[p] != b && ours.names[p] != 0 && ours.nodes[ours.names[p]] == theirs.nodes[t]
			})
		}
		ok = ok && (byPath || !movedTwice(base.of(b), ours.of(o), there))
	}
	maps.DeleteFunc(out.nodes, func(n int, _ value) bool { return len(out.of(n)) == 0 })
	if byPath {
		return out, ok
	}
	as := flat{map[string]int{}, map[int]value{}} // with the numbers that the older state has
	for n, v := range out.nodes {
		to := n
		if _, taken := theirs.nodes[n]; taken {
			to += 2_000_000
		}
		for t := range theirs.nodes {
			if number(t) == n {
				to = t
			}
		}
		for _, p := range out.of(n) {
			as.names[p] = to
		}
		as.nodes[to] = v
	}
	return as, ok
}

// movedTwice reports whether one side moved a file that the other one removed or moved elsewhere.
func movedTwice(base, ours, theirs []string) bool {
	less := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(p string) bool { return slices.Contains(b, p) })
	}
	lost := less(base, theirs)
	gained, elsewhere := less(theirs, base), less(less(ours, base), theirs)
	if len(ours) == 0 {
		return len(lost) > 0 && len(gained) > 0
	}
	both := len(less(lost, ours)) > 0
	return both && len(elsewhere) > 0 && (len(gained) == 0 || len(less(gained, ours)) > 0)
}

// String is the same for trees that differ in the numbers of inodes only.
func (f flat) String() string {
	var all []string
	for n, v := range f.nodes {
		all = append(all, fmt.Sprintf("%s %o %q", strings.Join(f.of(n), "="), v.mode, strings.Fields(v.lines)))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func (e editor) flat(t testing.TB) flat {
	f := flat{map[string]int{}, map[int]value{}}
	st, err := e.w.State()
	must.OK(t, err)
	must.OK(t, st.Walk(context.Background(), e.s.Source(), tree.WalkOptions{}, func(at *tree.Path, n *tree.Inode) error {
		if at == nil || n.IsDir() {
			return nil // a directory is there for what is in it
		}
		b := make([]byte, n.Size())
		if _, err := n.Content.ReadAt(e.s.Source().Files, b, 0); err != nil {
			return err
		}
		if int(n.Nlink) != len(n.Links) {
			t.Errorf("%s has %d links and %d names", at, n.Nlink, len(n.Links))
		}
		f.names[at.String()], f.nodes[int(n.Ino)] = int(n.Ino), value{n.Mode & 0o7777, string(b)}
		return nil
	}))
	return f
}

// mergeLines merges files of as many lines each.
func mergeLines(_ context.Context, f threeway.TextInput, merged func(threeway.MergedText) error) error {
	var sides [3]value
	for k, r := range []io.Reader{f.Base, f.Ours, f.Theirs} {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		sides[k].lines = string(b)
	}
	v, ok := mergeValues(sides[0], sides[1], sides[2])
	return merged(threeway.MergedText{Text: []byte(v.lines), Clean: ok})
}

// TestMergesAgainstModel merges forks, and undoes actors, in random histories with links. The
// result is that of the model, a conflict touches nothing, and what one side alone changed is
// there exactly.
func TestMergesAgainstModel(t *testing.T) {
	histories := 1000
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		histories = 10_000
	}
	s, err := snapshot.Open(t.TempDir(), snapshot.Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	total := map[string]int{}
	for seed := range histories {
		rnd := rand.New(rand.NewPCG(1, uint64(seed)))
		e := editor{s: s, w: s.Main(), actor: "x"}
		e.forkAs(t, "h")
		e.dirs = seed%2 == 1
		log := e.changes(rnd, 12)
		var what string
		var again func()
		var before, want flat
		var clean bool
		var merge func(rule threeway.Rule) ([]string, error)
		switch alone, kind := rnd.IntN(4), rnd.IntN(2); {
		case kind == 0 || e.dirs:
			what = "merge"
			base, fork := e.flat(t), e
			fork.actor = "theirs"
			fork.fork(t, "f", "")
			e.actor = "ours"
			if alone != 0 {
				log += fork.changes(rnd, 1+rnd.IntN(5))
			}
			if alone != 1 {
				log += e.changes(rnd, 1+rnd.IntN(5))
			}
			before = e.flat(t)
			want, clean = mergeFlat(base, before, fork.flat(t), true)
			if alone == 1 && (!clean || want.String() != fork.flat(t).String()) {
				t.Errorf("history %d: the model does not take over what the fork alone changed", seed)
			}
			again = func() {
				what = "second merge"
				log += "merge; " + fork.changes(rnd, 1+rnd.IntN(3)) + e.changes(rnd, rnd.IntN(3))
				before = e.flat(t)
				want, clean = mergeFlat(base, before, fork.flat(t), true)
			}
			merge = func(rule threeway.Rule) ([]string, error) {
				done, err := e.w.Forks().Merge(t.Context(), snapshot.MergeOptions{Fork: "f", Merge: mergeLines, MergeRules: snapshot.MergeRules{Ours: rule == threeway.KeepOurs, Theirs: rule == threeway.TakeTheirs}})
				return done.Conflicts, err
			}
		default:
			what = "undo"
			began := e.flat(t)
			states := []flat{began}
			var by []string
			for range 1 + rnd.IntN(4) {
				e.captureAs(t, fmt.Sprint("s", len(states)))
				e.actor = []string{"a", "b"}[rnd.IntN(2)]
				if alone == 1 {
					e.actor = "a"
				}
				log += e.changes(rnd, 1+rnd.IntN(3)) + "snapshot; "
				states, by = append(states, e.flat(t)), append(by, e.actor)
			}
			before = states[len(states)-1]
			want, clean = before, true
			for i, actor := range slices.Backward(by) {
				if actor == "a" && clean {
					want, clean = mergeFlat(states[i+1], want, states[i], false)
				}
			}
			if alone == 1 && (!clean || want.String() != began.String()) {
				t.Errorf("history %d: the model does not take back what one actor alone changed", seed)
			}
			merge = func(rule threeway.Rule) ([]string, error) {
				done, err := e.w.Snapshots().UndoBy(t.Context(), snapshot.UndoByOptions{Actor: "a", Merge: mergeLines, MergeRules: snapshot.MergeRules{Ours: rule == threeway.KeepOurs, Theirs: rule == threeway.TakeTheirs}})
				return done.Conflicts, err
			}
		}
		for done := false; !done && !t.Failed(); {
			done = again == nil || what == "second merge" || rnd.IntN(2) == 0
			conflicts, err := merge(threeway.RefuseConflicts)
			got := e.flat(t)
			switch {
			case errors.Is(err, threeway.ErrConflict):
				total[what+" in conflict"]++
				if clean || len(conflicts) == 0 || got.String() != before.String() {
					t.Errorf("history %d: %s\n%s: conflicts %v\n%s\nfrom\n%s\nnot\n%s", seed, log, what, conflicts, got, before, want)
				}
				rule := []threeway.Rule{threeway.KeepOurs, threeway.TakeTheirs}[rnd.IntN(2)]
				if _, err := merge(rule); err != nil {
					t.Errorf("history %d: %s\n%s with --%s: %v", seed, log, what, rule, err)
				}
				e.flat(t)
			case err != nil:
				t.Errorf("history %d: %s\n%s: %v", seed, log, what, err)
			default:
				total[what]++
				if !clean || got.String() != want.String() {
					t.Errorf("history %d: %s\n%s: clean %v:\n%s\nfrom\n%s\nnot\n%s", seed, log, what, clean, got, before, want)
				}
			}
			if !done {
				again()
			}
		}
		if t.Failed() {
			break
		}
		must.OK(t, s.Main().Forks().Discard("h", actors.Caller{}))
	}
	t.Log(total)
}
