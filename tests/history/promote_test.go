package history_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// side is what a merge looks at of a tree: one line a path, without times.
type side map[string]string

func readSide(t testing.TB, dir string) side {
	t.Helper()
	s := side{}
	must.OK(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			value := make([]byte, 64)
			if n, err := unix.Lgetxattr(p, "user.x", value); err == nil {
				line += " x=" + string(value[:n])
			}
		}
		rel, err := filepath.Rel(dir, p)
		s[rel] = line
		return err
	}))
	return s
}

func isDirLine(line string) bool { return strings.HasPrefix(line, "d") }

// scramble makes random changes to a tree, as programs do. No file gets a second name:
// TestMergesAgainstModel (snapshot) has what becomes of those.
func scramble(t testing.TB, r *rand.Rand, dir string, n int) {
	t.Helper()
	names := []string{"a", "b", "c"}
	pick := func() string {
		parts := make([]string, 1+r.IntN(2)+r.IntN(2)*r.IntN(2))
		for i := range parts {
			parts[i] = names[r.IntN(len(names))]
		}
		return filepath.Join(dir, filepath.Join(parts...))
	}
	var errno unix.Errno
	for range n {
		p, q := pick(), pick()
		var err error
		switch r.IntN(13) {
		case 0, 1, 2:
			err = os.WriteFile(p, fmt.Appendf(nil, "%d\n", r.IntN(4)), 0o644)
		case 3, 12:
			err = os.Mkdir(p, 0o755)
		case 4:
			err = os.Remove(p)
		case 5:
			err = os.RemoveAll(p)
		case 6:
			err = os.Symlink(names[r.IntN(len(names))], p)
		case 7:
			err = os.Rename(p, q)
		case 8:
			if info, serr := os.Lstat(p); serr == nil && info.Mode()&fs.ModeSymlink == 0 {
				err = os.Chmod(p, 0o700|fs.FileMode(r.IntN(2)*0o55))
			}
		case 9:
			err = unix.Lsetxattr(p, "user.x", fmt.Appendf(nil, "%d", r.IntN(3)), 0)
		case 10, 11: // a file in place of a directory, or the other way round
			info, serr := os.Lstat(p)
			if serr == nil && os.RemoveAll(p) == nil {
				if info.IsDir() {
					err = os.WriteFile(p, []byte("was a directory\n"), 0o644)
				} else {
					err = os.Mkdir(p, 0o755)
				}
			}
		}
		if err != nil && !errors.As(err, &errno) {
			t.Fatal(err)
		}
	}
}

// A promotion against a three-way merge by paths.
func TestPromoteIsAThreeWayMerge(t *testing.T) {
	m := harness.New(t)
	first := harness.RandomSeed(t)
	rounds := harness.Count(t, "ROUNDS", 15, 500)
	for round := range rounds {
		seed := first + uint64(round)
		ok := t.Run(fmt.Sprintf("%d-%x", round, seed), func(t *testing.T) {
			promoteRound(t, m, rand.New(rand.NewPCG(seed, 1)), fmt.Sprintf("fork%d", round))
		})
		if !ok {
			return
		}
	}
}

func promoteRound(t *testing.T, m *harness.Mount, r *rand.Rand, fork string) {
	entries, err := os.ReadDir(m.Dir)
	must.OK(t, err)
	for _, e := range entries {
		must.OK(t, os.RemoveAll(m.Path(e.Name())))
	}
	scramble(t, r, m.Dir, 18)
	must.OK(t, os.Mkdir(m.Path(".forks", fork), 0o755))
	dir := m.Path(".forks", fork)
	base := readSide(t, m.Dir)
	alone := r.IntN(4) == 0
	if !alone {
		scramble(t, r, m.Dir, 1+r.IntN(4))
	}
	scramble(t, r, dir, 1+r.IntN(5))
	before := harness.ReadTree(t, m.Dir)
	ours, theirs := readSide(t, m.Dir), readSide(t, dir)
	describe := func() string {
		return fmt.Sprintf("base   %v\nours   %v\ntheirs %v", show(base), show(ours), show(theirs))
	}

	var result struct {
		Conflicts []string
		Changed   int
		Undo      string
		Exit      int
		Result    *struct{ Conflicts []string }
	}
	out, err := m.TryAmberfs("promote", fork, "--json")
	if uerr := json.Unmarshal([]byte(out), &result); uerr != nil {
		t.Fatalf("%v: %s\n%s", uerr, out, describe())
	}
	must3 := conflictsOf(base, ours, theirs)
	if err == nil {
		if len(must3) > 0 {
			t.Fatalf("merged in spite of %q\n%s", must3, describe())
		}
		checkMerged(t, readSide(t, m.Dir), base, ours, theirs, nil, "", describe)
		if alone {
			harness.CheckSameTree(t, "the fork, promoted", harness.ReadTree(t, dir), harness.ReadTree(t, m.Dir))
		}
		if result.Changed > 0 { // else there is nothing to undo
			restore(t, m, "undo")
			harness.CheckSameTree(t, "undone", before, harness.ReadTree(t, m.Dir))
		}
		return
	}
	if len(result.Conflicts) == 0 {
		t.Fatalf("refused without a conflict: %s\n%s", out, describe())
	}
	for _, p := range must3 {
		if !slices.Contains(result.Conflicts, p) {
			t.Fatalf("the conflict at %s is not told, only %q\n%s", p, result.Conflicts, describe())
		}
	}
	for _, p := range result.Conflicts {
		// With a directory that became a file goes what is in it.
		if !changedApart(p, base, ours, theirs) && !structural(p, base, ours, theirs) && !below(path.Dir(p), result.Conflicts) {
			t.Fatalf("%s is no conflict\n%s", p, describe())
		}
	}
	harness.CheckSameTree(t, "refused", before, harness.ReadTree(t, m.Dir))
	conflicts := result.Conflicts
	for _, side := range []string{"--ours", "--theirs"} {
		out, err := m.TryAmberfs("promote", fork, side, "--json")
		if uerr := json.Unmarshal([]byte(out), &result); err != nil || uerr != nil {
			t.Fatalf("promote %s: %v, %v\n%s", side, err, uerr, describe())
		}
		checkMerged(t, readSide(t, m.Dir), base, ours, theirs, conflicts, side, describe)
		if result.Changed == 0 {
			continue // there is nothing to undo
		}
		restore(t, m, "undo")
		harness.CheckSameTree(t, "undone after "+side, before, harness.ReadTree(t, m.Dir))
	}
}

func show(s side) string {
	var lines []string
	for _, p := range slices.Sorted(maps.Keys(s)) {
		lines = append(lines, p+": "+s[p])
	}
	return strings.Join(lines, "; ")
}

func paths(sides ...side) []string {
	all := map[string]bool{}
	for _, s := range sides {
		for p := range s {
			all[p] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// goneInBoth reports whether both sides removed a file, or a directory, and one of them put
// the other kind in its place: as in git, that is what the merge has.
func goneInBoth(base, ours, theirs string) bool {
	replaced := func(line string) bool { return line != "" && isDirLine(line) != isDirLine(base) }
	return base != "" && (ours == "" && replaced(theirs) || theirs == "" && replaced(ours))
}

// conflictsOf are the paths that changed on both sides to something else, which
// does not merge.
func conflictsOf(base, ours, theirs side) []string {
	var out []string
	for _, p := range paths(base, ours, theirs) {
		if !changedApart(p, base, ours, theirs) || goneInBoth(base[p], ours[p], theirs[p]) {
			continue
		}
		if _, ok := mergedFile(base[p], ours[p], theirs[p]); !ok {
			out = append(out, p)
		}
	}
	return out
}

func changedApart(p string, base, ours, theirs side) bool {
	return ours[p] != base[p] && theirs[p] != base[p] && ours[p] != theirs[p]
}

// mergedFile is the line of a file or directory whose mode, bytes and attribute were each
// changed by one side alone, or by both in the same way: the files here have one line, so that
// two different changes of it never merge.
func mergedFile(base, ours, theirs string) (merged string, ok bool) {
	var parts [3][3]string // mode, bytes, attribute
	for i, line := range []string{base, ours, theirs} {
		if base == "" || line == "" || line[0] != base[0] || line[0] == 'L' {
			return "", false
		}
		begin, end := strings.IndexByte(line, '"'), strings.LastIndexByte(line, '"')+1
		if begin < 0 {
			begin = len(line)
			if x := strings.Index(line, " x="); x >= 0 {
				begin = x
			}
			end = begin
		}
		parts[i] = [3]string{line[:begin], line[begin:end], line[end:]}
	}
	for i := range 3 {
		b, o, t := parts[0][i], parts[1][i], parts[2][i]
		switch {
		case t == b || t == o:
			merged += o
		case o == b:
			merged += t
		default:
			return "", false
		}
	}
	return merged, true
}

// structural reports whether a path that changed in the fork stands in the way
// of one that changed here, or the other way round: a file where the other side
// has a directory with something new in it.
func structural(p string, base, ours, theirs side) bool {
	if isDirLine(base[p]) && ours[p] != "" && !isDirLine(ours[p]) {
		for _, q := range paths(base, theirs) {
			if strings.HasPrefix(q, p+"/") && theirs[q] != base[q] {
				return true
			}
		}
	}
	if theirs[p] == base[p] {
		return false
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if ours[dir] != base[dir] && !isDirLine(ours[dir]) {
			return true
		}
	}
	for _, q := range paths(base, ours) {
		if strings.HasPrefix(q, p+"/") && ours[q] != base[q] {
			return true
		}
	}
	return false
}

// below reports whether p is one of the paths or lies below one.
func below(p string, list []string) bool {
	for ; p != "."; p = path.Dir(p) {
		if slices.Contains(list, p) {
			return true
		}
	}
	return false
}

// checkMerged checks each path of a merge. decided are the conflicts, decided
// for one side.
func checkMerged(t *testing.T, got, base, ours, theirs side, decided []string, how string, describe func() string) {
	t.Helper()
	for _, p := range paths(base, ours, theirs, got) {
		want := ours[p]
		switch {
		case theirs[p] == base[p]:
		case goneInBoth(base[p], ours[p], theirs[p]) && !below(p, decided):
			want = ours[p] + theirs[p] // one of them is ""
		case how == "--ours" && below(p, decided):
		default:
			want = theirs[p]
			if line, ok := mergedFile(base[p], ours[p], theirs[p]); ok && !below(p, decided) {
				want = line
			}
		}
		if got[p] == want {
			continue
		}
		// What is above a change of the other side comes or stays with it, and
		// what has turned into something else takes with it what was below.
		if want == "" && isDirLine(got[p]) && hasBelow(got, p) && (got[p] == ours[p] || got[p] == theirs[p]) {
			continue
		}
		if got[p] == "" && how != "" {
			if parent := path.Dir(p); parent != "." && !isDirLine(got[parent]) {
				continue
			}
		}
		if how == "--theirs" && isDirLine(theirs[p]) && got[p] == theirs[p] && hasBelow(got, p) {
			continue
		}
		t.Fatalf("promote %s: %s is %q, want %q\n%s\nmerged %v\nconflicts %q", how, p, got[p], want, describe(), show(got), decided)
	}
}

func hasBelow(s side, dir string) bool {
	for p := range s {
		if strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}
