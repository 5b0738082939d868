package hostdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// applied is a directory and the states that are applied to it.
type applied struct {
	t   *testing.T
	m   *trees.Memory
	dir string
}

func newApplied(t *testing.T) *applied {
	return &applied{t, trees.NewMemory(), t.TempDir()}
}

// start creates the files of a spec in the directory, and returns them as a state.
func (a *applied) start(s trees.Spec) *tree.State {
	a.t.Helper()
	empty, base := a.m.State(a.t, trees.Spec{}), a.m.State(a.t, s)
	_, err := a.apply(empty, base, ApplyOptions{})
	must.OK(a.t, err)
	return base
}

func (a *applied) apply(base, now *tree.State, o ApplyOptions) (*ApplyResult, error) {
	o.Source, o.Base, o.Now, o.MergeLines = a.m.Src, base, now, trees.MergeByGit
	return Apply(context.Background(), a.dir, o)
}

func (a *applied) write(p, data string) {
	a.t.Helper()
	must.OK(a.t, os.MkdirAll(filepath.Dir(filepath.Join(a.dir, p)), 0o755))
	must.OK(a.t, os.WriteFile(filepath.Join(a.dir, p), []byte(data), 0o644))
}

// has returns the type, the permissions and the contents of each file in a directory, by path.
func has(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	must.OK(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		text := fmt.Sprintf("%o", st.Mode)
		switch {
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %d %s", st.Mtim.Nano(), b)
		case d.Type() == fs.ModeSymlink:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text = to
		}
		rel, err := filepath.Rel(dir, p)
		out[rel] = text
		return err
	}))
	return out
}

func wantSame(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if got[p] != want[p] {
			t.Errorf("%s: %s is %q, want %q", what, p, got[p], want[p])
		}
	}
	for p := range want {
		if _, ok := got[p]; !ok {
			t.Errorf("%s: %s is missing", what, p)
		}
	}
}

// randomSpec returns a small tree. Its names are so few that two random trees often have different types of files at
// one path.
func randomSpec(r *rand.Rand) trees.Spec {
	s := trees.Spec{}
	var fill func(at string, depth int)
	fill = func(at string, depth int) {
		for _, name := range []string{"a", "b", "c", "d e", "\xff\n"} {
			p := at + name
			switch k := r.IntN(9); {
			case k == 0:
				s[p] = trees.Link(fmt.Sprint("../to", r.IntN(2)))
			case k == 1:
				s[p] = trees.Exe(fmt.Sprint("run", r.IntN(2)))
			case k == 2:
				s[p] = trees.Node{Mode: unix.S_IFREG | 0o644, Data: "touched", Mtime: trees.SomeTime + int64(r.IntN(2))*1e9}
			case k == 3:
				s[p] = trees.Fifo()
			case k < 6:
				s[p] = trees.File(strings.Repeat("x", r.IntN(3)*5000) + fmt.Sprint(r.IntN(2)))
			case k < 8 && depth < 3:
				s[p] = trees.Node{Mode: unix.S_IFDIR | 0o700 | uint32(r.IntN(2)*0o055)}
				fill(p+"/", depth+1)
			}
		}
	}
	fill("", 0)
	return s
}

// TestApplyRandom: an apply makes the directory equal to the new state. An apply that is interrupted before its first
// rename changes nothing, and an apply after a complete one has nothing to do.
func TestApplyRandom(t *testing.T) {
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 1))
		from, to := randomSpec(r), randomSpec(r)
		want := newApplied(t)
		want.start(to)
		a := newApplied(t)
		base := a.start(from)
		now := a.m.State(t, to)
		ctx, stop := context.WithCancel(context.Background())
		o := ApplyOptions{Source: a.m.Src, Base: base, Now: now}
		left := r.IntN(20)
		o.Progress = func(stream.Progress) {
			if left--; left < 0 {
				stop()
			}
		}
		before := has(t, a.dir)
		if _, err := Apply(ctx, a.dir, o); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			wantSame(t, fmt.Sprint("seed ", seed, " after it was stopped"), has(t, a.dir), before)
		}
		stop()
		if _, err := a.apply(base, now, ApplyOptions{}); err != nil {
			t.Fatalf("seed %d: the second run: %v", seed, err)
		}
		wantSame(t, fmt.Sprint("seed ", seed), has(t, a.dir), has(t, want.dir))
		if res, err := a.apply(base, now, ApplyOptions{}); err != nil || res.Changed != 0 {
			t.Errorf("seed %d: once more: %+v, %v", seed, res, err)
		}
		if t.Failed() {
			return
		}
	}
}

func TestApplyConflicts(t *testing.T) {
	from := trees.Spec{"same": trees.File("1"), "both": trees.File("1"), "here": trees.File("1"), "gone": trees.File("1"), "dir/x": trees.File("1"), "dir2/y": trees.File("1"), "link": trees.Link("same")}
	to := trees.Spec{"same": trees.File("2"), "both": trees.File("2"), "here": trees.File("1"), "gone": trees.File("2"), "dir": trees.File("now a file"), "dir2/y": trees.File("1"), "dir2/new": trees.File("n"), "link": trees.Link("both")}
	prepare := func(t *testing.T) (a *applied, base, now *tree.State) {
		a = newApplied(t)
		base = a.start(from)
		a.write("both", "mine")
		a.write("here", "mine")
		a.write("dir/mine", "mine")
		must.OK(t, os.Remove(filepath.Join(a.dir, "gone")))
		must.OK(t, os.RemoveAll(filepath.Join(a.dir, "dir2")))
		must.OK(t, os.Symlink("/etc", filepath.Join(a.dir, "dir2")))
		return a, base, a.m.State(t, to)
	}
	t.Run("refused", func(t *testing.T) {
		a, base, now := prepare(t)
		before := has(t, a.dir)
		res, err := a.apply(base, now, ApplyOptions{})
		slices.Sort(res.Conflicts)
		if !errors.Is(err, ErrConflict) || !slices.Equal(res.Conflicts, []string{"both", "dir", "dir2", "dir2/new", "gone"}) {
			t.Errorf("%v, %v", res.Conflicts, err)
		}
		wantSame(t, "refused", has(t, a.dir), before)
	})
	t.Run("ours", func(t *testing.T) {
		a, base, now := prepare(t)
		want := has(t, a.dir)
		_, err := a.apply(base, now, ApplyOptions{ConflictRule: threeway.KeepOurs})
		must.OK(t, err)
		got := has(t, a.dir)
		if !strings.HasSuffix(got["same"], " 2") || got["link"] != "both" {
			t.Errorf("what is in no conflict was not carried: %v", got)
		}
		want["same"], want["link"] = got["same"], got["link"]
		wantSame(t, "ours", got, want)
	})
	t.Run("theirs", func(t *testing.T) {
		a, base, now := prepare(t)
		before := has(t, a.dir)
		// No rule allows an apply to remove a file that only the directory has, or a link in the place of a
		// directory.
		res, err := a.apply(base, now, ApplyOptions{ConflictRule: threeway.TakeTheirs})
		if !errors.Is(err, ErrConflict) || !slices.Contains(res.Conflicts, "dir") || !slices.Contains(res.Conflicts, "dir2") {
			t.Errorf("%v, %v", res.Conflicts, err)
		}
		wantSame(t, "theirs refused", has(t, a.dir), before)
		must.OK(t, os.Remove(filepath.Join(a.dir, "dir", "mine")))
		must.OK(t, os.Remove(filepath.Join(a.dir, "dir2")))
		_, err = a.apply(base, now, ApplyOptions{ConflictRule: threeway.TakeTheirs})
		must.OK(t, err)
		got := has(t, a.dir)
		for p, data := range map[string]string{"same": "2", "both": "2", "gone": "2", "dir": "now a file", "dir2/new": "n", "here": "mine"} {
			if !strings.HasSuffix(got[p], " "+data) {
				t.Errorf("%s is %q, want %q", p, got[p], data)
			}
		}
	})
}

// TestApplyFollowsNoLink: an apply follows no symbolic link in the directory, neither at the path of a file nor above
// it.
func TestApplyFollowsNoLink(t *testing.T) {
	outside := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(outside, "f"), []byte("1"), 0o644))
	for _, rule := range []threeway.Rule{threeway.RefuseConflicts, threeway.KeepOurs, threeway.TakeTheirs} {
		a := newApplied(t)
		base := a.start(trees.Spec{"d/f": trees.File("1"), "f": trees.File("1")})
		must.OK(t, os.RemoveAll(filepath.Join(a.dir, "d")))
		must.OK(t, os.Symlink(outside, filepath.Join(a.dir, "d")))
		must.OK(t, os.Remove(filepath.Join(a.dir, "f")))
		must.OK(t, os.Symlink(filepath.Join(outside, "f"), filepath.Join(a.dir, "f")))
		now := a.m.State(t, trees.Spec{"d/f": trees.File("evil"), "d/new": trees.File("evil"), "f": trees.Exe("evil")})
		_, err := a.apply(base, now, ApplyOptions{ConflictRule: rule})
		if (err == nil) != (rule == threeway.KeepOurs) {
			t.Errorf("rule %q: %v", rule, err)
		}
		if b, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(b) != "1" {
			t.Errorf("rule %q wrote outside: %q, %v", rule, b, err)
		}
		if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
			t.Errorf("rule %q made something outside: %v, %v", rule, names, err)
		}
	}
}

func TestApplyHardLinks(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"x": trees.File("1")})
	now := a.m.State(t, trees.Spec{"a": trees.File("2"), "b": {Hard: "a"}, "x": trees.File("1"), "y": {Hard: "x"}})
	_, err := a.apply(base, now, ApplyOptions{})
	must.OK(t, err)
	ino := func(p string) uint64 {
		var st unix.Stat_t
		must.OK(t, unix.Stat(filepath.Join(a.dir, p), &st))
		return st.Ino
	}
	if ino("a") != ino("b") || ino("x") != ino("y") || ino("a") == ino("x") {
		t.Errorf("inodes a %d, b %d, x %d, y %d", ino("a"), ino("b"), ino("x"), ino("y"))
	}
}

// TestApplyChangedHardLinks: files with several names are changed, and their names stay hard links of one file.
func TestApplyChangedHardLinks(t *testing.T) {
	from := trees.Spec{"f": trees.File("1"), "p/g": {Hard: "f"}, "z": trees.File("1")}
	for name, to := range map[string]trees.Spec{
		"contents": {"f": trees.File("2"), "p/g": {Hard: "f"}, "z": trees.File("2")},
		"rights":   {"f": trees.Node{Mode: unix.S_IFREG | 0o600, Data: "1"}, "p/g": {Hard: "f"}, "z": trees.File("2")},
		"one more": {"f": trees.File("2"), "p/g": {Hard: "f"}, "h": {Hard: "f"}, "z": trees.File("2")},
		"one less": {"f": trees.File("2"), "z": trees.File("2")},
	} {
		t.Run(name, func(t *testing.T) {
			a, want := newApplied(t), newApplied(t)
			want.start(to)
			base := a.start(from)
			_, err := a.apply(base, a.m.State(t, to), ApplyOptions{})
			must.OK(t, err)
			wantSame(t, name, has(t, a.dir), has(t, want.dir))
			x, err := os.Stat(filepath.Join(a.dir, "f"))
			must.OK(t, err)
			for _, p := range []string{"p/g", "h"} {
				if y, err := os.Stat(filepath.Join(a.dir, p)); err == nil && !os.SameFile(x, y) {
					t.Errorf("f and %s are two files", p)
				}
			}
		})
	}
}

// TestApplyAllOrNothing: if a program changes the directory while files are staged, the apply fails before the first
// rename, and leaves no temporary file.
func TestApplyAllOrNothing(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"a": trees.File("1"), "b/c": trees.File("1"), "d": trees.File("1"), "e": trees.File("1")})
	now := a.m.State(t, trees.Spec{"a": trees.File("2"), "b/c": trees.File("2"), "d/new/x": trees.File("2"), "n/n/n": trees.File("2"), "z": trees.Link("a")})
	o := ApplyOptions{Progress: func(stream.Progress) { must.OK(t, os.WriteFile(filepath.Join(a.dir, "b/c"), []byte("mine"), 0o644)) }}
	before := has(t, a.dir)
	_, err := a.apply(base, now, o)
	if err == nil || !strings.Contains(err.Error(), "changed") {
		t.Fatalf("error %v", err)
	}
	after := has(t, a.dir)
	delete(before, "b/c")
	delete(after, "b/c")
	wantSame(t, "refused", after, before)
}

// TestApplyWithoutRights: a file that the user may not remove makes the apply fail before the first change.
func TestApplyWithoutRights(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may do everything")
	}
	a := newApplied(t)
	base := a.start(trees.Spec{"a": trees.File("1"), "d/x": trees.File("1"), "z": trees.File("1")})
	now := a.m.State(t, trees.Spec{"a": trees.File("2"), "z": trees.File("2")})
	must.OK(t, os.Chmod(filepath.Join(a.dir, "d"), 0o555))
	before := has(t, a.dir)
	if _, err := a.apply(base, now, ApplyOptions{ConflictRule: threeway.TakeTheirs}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v", err)
	}
	wantSame(t, "refused", has(t, a.dir), before)
	must.OK(t, os.Chmod(filepath.Join(a.dir, "d"), 0o755))
}

// TestApplyClosesWhatAKilledOneOpened: a directory that a killed apply left open gets its former mode.
func TestApplyClosesWhatAKilledOneOpened(t *testing.T) {
	a := newApplied(t)
	base := a.edited(a.start(trees.Spec{"d/x": trees.File("1")}), func(base *tree.State) {
		for _, p := range []string{"", "d"} {
			a.own(base, p).Mode = unix.S_IFDIR | 0o555
		}
	})
	now := a.edited(base, func(now *tree.State) {
		a.own(now, "d/x").Content = a.m.Content(t, "2")
		a.own(now, "d").Mtime++
		a.own(now, "").Mtime++
		a.m.Add(t, now, "made", trees.Node{Mode: unix.S_IFDIR | 0o111})
	})
	a.write("d/x", "2")
	for p, mode := range map[string]uint32{"": 0o4755, "d": 0o4755, "made": 0o4711} {
		must.OK(t, os.MkdirAll(filepath.Join(a.dir, p), 0o755))
		must.OK(t, unix.Chmod(filepath.Join(a.dir, p), mode))
	}
	_, err := a.apply(base, now, ApplyOptions{})
	must.OK(t, err)
	for p, want := range map[string]uint32{"": 0o555, "d": 0o555, "made": 0o111} {
		var st unix.Stat_t
		must.OK(t, unix.Stat(filepath.Join(a.dir, p), &st))
		if st.Mode&0o7777 != want {
			t.Errorf("%q has the mode %o, want %o", p, st.Mode, want)
		}
		must.OK(t, os.Chmod(filepath.Join(a.dir, p), 0o755))
	}
}

// TestApplyChoices: an apply changes the chosen paths only, and a second apply changes the other paths.
func TestApplyChoices(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	lines := func(first, last string) string { return first + strings.Repeat("x\n", 9) + last }
	from := trees.Spec{"f": trees.File(lines("1\n", "1\n")), "gone/a": trees.File("a"), "gone/b": trees.File("b"), "was": trees.Node{Mode: unix.S_IFDIR | 0o755}, "was/x": trees.File("x"),
		"text": trees.File("1\n"), "bin": trees.File("\x00"), "theirs": trees.File("1\n"), "ours": trees.File("1\n")}
	to := trees.Spec{"f": trees.Exe(lines("2\n", "2\n")), "gone/b": trees.File("b"), "was": trees.File("a file"), "new/a": trees.File("a"), "new/b": trees.File("b"),
		"text": trees.File("workspace\n"), "bin": trees.File("\x00w"), "theirs": trees.File("2\n"), "ours": trees.File("2\n"), "both": trees.File("w\n")}
	a := newApplied(t)
	base := a.start(from)
	now := a.m.State(t, to)
	for _, p := range []string{"text", "bin", "theirs", "ours", "both"} {
		a.write(p, map[string]string{"bin": "\x00d"}[p]+"directory\n")
	}
	res, err := a.apply(base, now, ApplyOptions{DryRun: true})
	var lined []string
	for _, c := range res.Plan {
		if c.Conflict && c.CanHaveMarkers {
			lined = append(lined, c.Path.String())
		}
	}
	slices.Sort(lined)
	if !errors.Is(err, ErrConflict) || !slices.Equal(lined, []string{"both", "ours", "text", "theirs"}) || len(res.Plan)-len(res.Conflicts) != 7 {
		t.Errorf("planned %d paths, conflicts %v, with lines %v: %v", len(res.Plan), res.Conflicts, lined, err)
	}
	choices := map[string]Choice{
		"f": {Text: []byte(lines("2\n", "1\n"))}, "gone/a": {Leave: true}, "was": {Leave: true}, "new/b": {Leave: true},
		"text": {Markers: true}, "both": {Markers: true}, "bin": {Leave: true}, "theirs": {ConflictRule: threeway.TakeTheirs}, "ours": {ConflictRule: threeway.KeepOurs},
	}
	_, err = a.apply(base, now, ApplyOptions{Choose: func(p string) Choice { return choices[p] }})
	must.OK(t, err)
	got := has(t, a.dir)
	const marked = "<<<<<<< ours\ndirectory\n=======\n%s>>>>>>> theirs\n"
	for p, want := range map[string]string{"f": lines("2\n", "1\n"), "gone/a": "a", "was/x": "x", "new/a": "a", "text": fmt.Sprintf(marked, "workspace\n"),
		"both": fmt.Sprintf(marked, "w\n"), "bin": "\x00ddirectory\n", "theirs": "2\n", "ours": "directory\n"} {
		if !strings.HasSuffix(got[p], " "+want) {
			t.Errorf("%s is %q, want %q", p, got[p], want)
		}
	}
	if _, ok := got["new/b"]; ok || !strings.HasPrefix(got["f"], "100755 ") {
		t.Errorf("new/b is %q, f %q", got["new/b"], got["f"])
	}
	_, err = a.apply(base, now, ApplyOptions{ConflictRule: threeway.TakeTheirs})
	must.OK(t, err)
	want := newApplied(t)
	want.start(to)
	now2, then := has(t, a.dir), has(t, want.dir)
	for p := range then {
		if p == "f" || p == "was" { // f was merged
			continue
		}
		if now2[p] != then[p] {
			t.Errorf("after the rest %s is %q, want %q", p, now2[p], then[p])
		}
	}
	if !strings.HasSuffix(now2["f"], lines("2\n", "2\n")) || !strings.HasSuffix(now2["was"], "a file") || len(now2) != len(then) {
		t.Errorf("after the rest: %v", now2)
	}
}
