// Package actors compares what amberfs does with the changes of actors with models of it, and
// with git.
package actors

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// An edit is what an actor does with one call of a program.
type edit struct {
	actor, what, path, other string
	n                        int
}

// editor makes edits in a workspace of a store.
type editor struct {
	s *snapshot.Store
	w *snapshot.Workspace

	actor string
	dirs  bool // change has directories
}

func (e editor) forest() live.Writer { return e.s.Forest().WithActor(e.actor) }

// dir returns the directory of a path and the name in it.
func (e editor) dir(p string) (live.NodeID, string, error) {
	at := e.w.Root()
	names := strings.Split(p, "/")
	for _, name := range names[:len(names)-1] {
		a, err := e.s.Forest().Lookup(at, name)
		if err != nil {
			return 0, "", err
		}
		at = a.ID
	}
	return at, names[len(names)-1], nil
}

func (e editor) make(p, content string) error {
	dir, name, err := e.dir(p)
	if err != nil {
		return err
	}
	a, err := e.forest().Create(dir, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		return err
	}
	_, err = e.forest().Write(a.ID, []byte(content), 0, false)
	return err
}

func (e editor) remove(dir live.NodeID, name string) error {
	f := e.forest()
	a, err := f.Lookup(dir, name)
	if err != nil {
		return err
	}
	if a.Mode&unix.S_IFMT != unix.S_IFDIR {
		_, err = f.Unlink(dir, name)
		return err
	}
	var names []string
	if err := f.ReadDir(a.ID, 0, func(d tree.Dirent, _ uint64) bool { names = append(names, d.Name); return true }); err != nil {
		return err
	}
	for _, n := range names {
		if n != "." && n != ".." {
			if err := e.remove(a.ID, n); err != nil {
				return err
			}
		}
	}
	_, err = f.Rmdir(dir, name)
	return err
}

func (e editor) do(x edit) error {
	e.actor = x.actor
	f := e.forest()
	dir, name, err := e.dir(x.path)
	if err != nil {
		return err
	}
	a, missing := f.Lookup(dir, name)
	other, otherName, otherErr := e.dir(x.other)
	switch x.what {
	case "create":
		return e.make(x.path, fmt.Sprintf("%d\n", x.n))
	case "binary":
		if missing == nil {
			_, err = f.Write(a.ID, fmt.Appendf(nil, "\x00%d", x.n), 0, false)
			return err
		}
		return e.make(x.path, fmt.Sprintf("\x00%d", x.n))
	case "text":
		return e.make(x.path, "0\n1\n2\n3\n4\n5\n6\n7\n")
	case "line":
		if missing != nil {
			return missing
		}
		b := make([]byte, a.Size)
		if _, err := f.ReadAt(a.ID, b, 0); err != nil {
			return err
		}
		lines := strings.SplitAfter(string(b), "\n")
		lines[x.n%len(lines)] = fmt.Sprintf("%s-%d\n", x.actor, x.n)
		none := int64(0)
		if _, err := f.SetAttr(a.ID, live.SetAttr{Size: &none}); err != nil {
			return err
		}
		_, err = f.Write(a.ID, []byte(strings.Join(lines, "")), 0, false)
		return err
	case "write": // in place
		if missing != nil {
			return missing
		}
		_, err = f.Write(a.ID, fmt.Appendf(nil, "%d\n", x.n%10), int64(x.n%3*2), false)
		return err
	case "save": // as an editor does
		if missing != nil {
			return missing
		}
		_, _ = f.Unlink(dir, ".tmp")
		t, err := f.Create(dir, ".tmp", live.NewNode{Mode: a.Mode})
		if err != nil {
			return err
		}
		if _, err = f.Write(t.ID, fmt.Appendf(nil, "saved %d\n", x.n), 0, false); err == nil {
			_, err = f.Rename(dir, ".tmp", dir, name, 0, actors.Caller{})
		}
		return err
	case "mkdir":
		_, err = f.Create(dir, name, live.NewNode{Mode: unix.S_IFDIR | 0o755})
	case "rm":
		return e.remove(dir, name)
	case "mv":
		if otherErr != nil {
			return otherErr
		}
		_, err = f.Rename(dir, name, other, otherName, 0, actors.Caller{})
	case "ln":
		if missing != nil || otherErr != nil {
			return errors.Join(missing, otherErr)
		}
		_, err = f.Link(a.ID, other, otherName)
	case "symlink":
		_, err = f.Create(dir, name, live.NewNode{Mode: unix.S_IFLNK | 0o777, Target: fmt.Sprint(x.n)})
	case "chmod":
		if missing != nil {
			return missing
		}
		mode := a.Mode&unix.S_IFMT | 0o700 | uint32(x.n%64)
		_, err = f.SetAttr(a.ID, live.SetAttr{Mode: &mode})
	case "xattr":
		if missing != nil {
			return missing
		}
		err = f.SetXattr(a.ID, "user.x", fmt.Append(nil, x.n), 0, false)
	case "restore":
		infos := e.w.List()
		if len(infos) > 0 {
			_, err = e.w.Restore(context.Background(), snapshot.RestoreOptions{Name: fmt.Sprintf("s%d", x.n%len(infos)), Caller: actors.Caller{Actor: x.actor}})
		}
	}
	return err
}

// lines describes a tree: a line a path, with the names of the same file.
func (e editor) lines(t rapid.TB, st *tree.State) map[string]string {
	out, groups := map[string]string{}, map[uint64][]string{}
	err := st.Walk(context.Background(), e.s.Source(), tree.WalkOptions{}, func(at *tree.Path, n *tree.Inode) error {
		if at == nil {
			return nil
		}
		line := fmt.Sprintf("%o %s", n.Mode, n.Target)
		for _, x := range n.Xattrs {
			line += fmt.Sprintf(" %s=%s", x.Name, x.Value)
		}
		if n.IsRegular() {
			b := make([]byte, n.Size())
			if _, err := n.Content.ReadAt(e.s.Source().Files, b, 0); err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", b)
			groups[n.Ino] = append(groups[n.Ino], at.String())
		}
		out[at.String()] = line
		return nil
	})
	must.OK(t, err)
	for _, g := range groups {
		for _, p := range g {
			out[p] += fmt.Sprint(" ", g)
		}
	}
	return out
}

func (e editor) state(t rapid.TB) *tree.State {
	st, err := e.w.State()
	must.OK(t, err)
	return st
}

// differing are the paths that two states differ in, and those above them.
func (e editor) differing(t rapid.TB, a, b *tree.State, into map[string]bool, files ...map[string]bool) {
	must.OK(t, tree.Diff(context.Background(), e.s.Source(), a, b, tree.DiffOptions{}, func(c tree.Change) error {
		if len(files) > 0 && c.After != nil && !c.After.IsDir() {
			files[0][c.Path.String()] = true
		}
		if c.Differences&^tree.MtimeDiffers == 0 && c.After.IsDir() {
			return nil
		}
		for p := c.Path.String(); p != "" && p != "."; p = path.Dir(p) {
			into[p] = true
		}
		return nil
	}))
}

// fork goes on in a fork.
func (e *editor) fork(t rapid.TB, name, from string) {
	w, err := e.w.Forks().New(snapshot.ForkOptions{Name: name, Snapshot: from})
	must.OK(t, err)
	e.w = w
}

func (e editor) capture(t rapid.TB, name string) {
	_, err := e.w.Capture(snapshot.CaptureOptions{Name: name})
	must.OK(t, err)
}

// TestUndoByAgainstModel compares an undo of one actor with the same history without it.
func TestUndoByAgainstModel(t *testing.T) {
	// Most edits are to the first of the names, which some histories begin with.
	names := []string{"a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a"}
	for i := range 40 {
		names = append(names, fmt.Sprintf("%s%d", []string{"", "d/", "d/e/", "g/"}[i%4], i))
	}
	whats := []string{
		"create", "create", "binary", "write", "line", "line", "line", "save", "save", "mkdir", "mkdir", "rm", "mv", "mv", "ln", "ln",
		"symlink", "chmod", "xattr", "restore",
	}
	name := rapid.OneOf(rapid.SampledFrom(names[:10]), rapid.SampledFrom(names))
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		must.OK(t, flag.Set("rapid.checks", "1000"))
	}
	rare := [][]edit{ // histories that random ones seldom are
		{{"a", "create", "a", "a", 0}, {"b", "create", "b", "a", 0}, {"a", "ln", "b", "c", 0}},
		{{"a", "mkdir", "d", "a", 0}, {"b", "create", "a", "a", 0}, {"a", "mv", "a", "d/a", 0}},
	}
	total := map[string]int{}
	s, err := snapshot.Open(t.TempDir(), snapshot.Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	main := editor{s: s, w: s.Main()}
	for _, dir := range []string{"d", "d/e", "g"} {
		must.OK(t, main.do(edit{what: "mkdir", path: dir}))
	}
	for i, p := range names {
		if p != "d" && p != "d/e" && p != "f" && p != "f/a" {
			must.OK(t, main.do(edit{what: []string{"text", "text", "binary", "symlink"}[i%4], path: p}))
		}
	}
	main.capture(t, "full")
	rapid.Check(t, func(rt *rapid.T) {
		from := "base"
		if rapid.Bool().Draw(rt, "files") {
			from = "full"
		}
		eds := [2]editor{main, main} // each in a fork of its own
		for i, name := range []string{"full", "without"} {
			eds[i].fork(rt, name, from)
			defer func() {
				must.OK(rt, s.Main().Forks().Discard(name, actors.Caller{}))
			}()
		}
		full := &eds[0]
		began := 0
		if rapid.Bool().Draw(rt, "fork") {
			began = 5
		}
		var byA, byOthers map[string]bool
		files := map[string]bool{}                         // paths that led to something other than a directory at some time
		var moves []map[string]bool                        // what a moved: if others changed one name, that is about the other, too
		var links []map[string]bool                        // what a linked: no record tells who made which name of a file
		midst := rapid.IntRange(-20, 40).Draw(rt, "midst") // when a's changes are undone for the first time
		anyEdits := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) edit {
			return edit{
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "actor"), rapid.SampledFrom(whats).Draw(rt, "what"),
				name.Draw(rt, "path"), name.Draw(rt, "other"), rapid.IntRange(0, 99).Draw(rt, "n"),
			}
		}), 3, 40)
		edits := rapid.OneOf(anyEdits, anyEdits, anyEdits, anyEdits, anyEdits, anyEdits, rapid.SampledFrom(rare)).Draw(rt, "edits")
		for n, x := range edits {
			if n == 0 {
				for p, line := range full.lines(rt, full.state(rt)) {
					files[p] = !strings.HasPrefix(line, "40")
				}
			}
			if n == began {
				byA, byOthers = map[string]bool{}, map[string]bool{}
				for i := range eds {
					if began > 0 {
						eds[i].fork(rt, "f", "")
					}
				}
			}
			if n == midst && n >= began {
				o := snapshot.UndoByOptions{Actor: "a", Merge: diff.Merger{}.Merge, Caller: actors.Caller{Actor: "lead"}}
				done, err := full.w.Snapshots().UndoBy(context.Background(), o)
				if err != nil && !errors.Is(err, threeway.ErrConflict) && errs.KindOf(err) != errs.NotExist {
					rt.Fatal(err)
				}
				if done.Changed > 0 {
					total["twice"]++
				}
				rt.Logf("an undo: %v, %v", done.Paths, err)
			}
			for i, e := range eds {
				if x.n%4 > 0 {
					e.capture(rt, fmt.Sprintf("s%d", n))
				}
				if i == 1 && x.actor == "a" && n >= began {
					continue
				}
				before := e.state(rt)
				err := e.do(x)
				touched := byOthers
				if x.actor == "a" {
					touched = byA
				}
				if n >= began {
					e.differing(rt, before, e.state(rt), touched, files)
					if x.what == "mv" && x.actor == "a" {
						for _, p := range names { // all that was in a directory went with it
							if strings.HasPrefix(p, x.path+"/") || strings.HasPrefix(p, x.other+"/") {
								byA[p] = true
							}
						}
						moved := map[string]bool{}
						if err == nil { // also where the files are alike
							moved[x.path], moved[x.other] = true, true
						}
						e.differing(rt, before, e.state(rt), moved)
						maps.DeleteFunc(moved, func(p string, _ bool) bool {
							return strings.HasPrefix(x.path, p+"/") || strings.HasPrefix(x.other, p+"/")
						})
						moves = append(moves, moved)
					}
					if x.what == "ln" && x.actor == "a" && err == nil {
						links = append(links, map[string]bool{x.path: true, x.other: true})
					}
					if x.what == "mv" || x.what == "ln" { // what a did to a file follows it
						e.differing(rt, before, e.state(rt), byA)
						byA[x.other] = true
					}
					if x.actor != "a" || err == nil {
						for _, p := range []string{x.path, x.other} {
							if x.what != "restore" {
								touched[p] = true
							}
						}
					}
				}
				if i == 0 && err == nil {
					total[x.what]++
				}
				rt.Logf("%d %d: %+v: %v", i, n, x, err)
			}
		}
		if byA == nil {
			return
		}
		spread(byOthers, moves)
		for p := range maps.Clone(byOthers) { // a directory stays for what stays in it
			for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
				byOthers[dir] = true
			}
		}
		conflicts := maps.Clone(byOthers)
		spread(conflicts, slices.Concat(moves, links))
		present := full.state(rt)
		was := full.lines(rt, present)
		rule := rapid.SampledFrom([]threeway.Rule{threeway.RefuseConflicts, threeway.KeepOurs, threeway.TakeTheirs}).Draw(rt, "rule")
		o := snapshot.UndoByOptions{Actor: "a", MergeRules: snapshot.MergeRules{Ours: rule == threeway.KeepOurs, Theirs: rule == threeway.TakeTheirs}, Merge: diff.Merger{}.Merge}
		done, err := full.w.Snapshots().UndoBy(context.Background(), o)
		if errors.Is(err, threeway.ErrConflict) {
			total["conflicts"]++
			for _, p := range done.Conflicts {
				if !conflicts[p] && !blocked(p, files) {
					rt.Errorf("%s is a conflict, and only a changed it", p)
				}
			}
			if got := full.lines(rt, full.state(rt)); !maps.Equal(got, was) {
				rt.Errorf("a conflict changed something: %v", got)
			}
			o.Ours = true
			done, err = full.w.Snapshots().UndoBy(context.Background(), o)
		}
		must.OK(rt, err)
		got, without := full.lines(rt, full.state(rt)), eds[1].lines(rt, eds[1].state(rt))
		for p := range union(got, was, without) {
			any := func(line string, is func(q string) bool) bool { // of the names of the file
				_, group, _ := strings.Cut(line, " [")
				return slices.ContainsFunc(strings.Fields(strings.TrimSuffix(group, "]")), is)
			}
			shared := func(line string) bool { return any(line, func(q string) bool { return byA[q] && byOthers[q] }) }
			alike := func(x, y string) bool { // a moved another name of the file: that one is among its names, or not
				isA := func(q string) bool { return byA[q] }
				if any(x, isA) || any(y, isA) {
					x, _, _ = strings.Cut(x, " [")
					y, _, _ = strings.Cut(y, " [")
				}
				return x == y
			}
			switch {
			case byA[p] && byOthers[p] || blocked(p, files) || shared(got[p]) || shared(was[p]) || shared(without[p]):
			case byA[p] && got[p] != without[p]:
				rt.Errorf("%s, that only a changed, is %s and not %s; it was %s", p, got[p], without[p], was[p])
			case !byA[p] && !alike(got[p], was[p]):
				rt.Errorf("%s, that a did not change, is %s; it was %s", p, got[p], was[p])
			}
		}
		total["undone"] += done.Changed
		if done.Changed == 0 {
			return
		}
		if len(done.Conflicts) == 0 {
			if again, err := full.w.Snapshots().UndoBy(context.Background(), o); err == nil && again.Changed > 0 && !maps.Equal(full.lines(rt, full.state(rt)), got) {
				rt.Logf("a second undo changed %v", again.Paths)
				total["second"]++
			}
			_, err = full.w.Restore(context.Background(), snapshot.RestoreOptions{Name: done.Undo})
			must.OK(rt, err)
		} else if _, err := full.w.Restore(context.Background(), snapshot.RestoreOptions{Name: "undo"}); err != nil {
			rt.Fatal(err)
		}
		if got := full.lines(rt, full.state(rt)); !maps.Equal(got, was) {
			rt.Errorf("the undo of the undo is no identity:\n%v\n%v", got, was)
		}
	})
	t.Log(total)
}

// TestUndoByOfAReplacement undoes what put one file in the place of another, and links.
func TestUndoByOfAReplacement(t *testing.T) {
	for i, c := range []struct {
		edits   []edit   // each without an actor takes a snapshot
		without []string // paths that are not as before
	}{
		{[]edit{{"a", "ln", "b", "f", 0}, {"a", "mv", "b", "a", 0}}, nil},
		{[]edit{{"a", "mv", "d/b", "b", 0}, {}, {"a", "rm", "b", "", 0}}, nil},
		{[]edit{{"a", "ln", "a", "f", 0}, {}, {"b", "mv", "f", "c", 0}}, nil},
		{[]edit{{"a", "rm", "a", "", 0}, {"a", "rm", "d/e/a", "", 0}, {"a", "create", "d/e/a", "", 0}, {"b", "mv", "d", "a", 0}}, nil}, // both changed a: as it was before
	} {
		s, err := snapshot.Open(t.TempDir(), snapshot.Options{Quiet: true})
		must.OK(t, err)
		defer s.Close()
		e := editor{s: s, w: s.Main()}
		do := func(edits []edit) {
			for n, x := range edits {
				if x.actor == "" {
					e.capture(t, fmt.Sprint("s", n))
				} else if err := e.do(x); err != nil {
					t.Fatal(i, x, err)
				}
			}
		}
		do([]edit{
			{"x", "text", "a", "", 0}, {"x", "text", "b", "", 0}, {"x", "mkdir", "d", "", 0}, {"x", "text", "d/b", "", 0},
			{"x", "text", "d/c", "", 0}, {"x", "mkdir", "d/e", "", 0}, {"x", "text", "d/e/a", "", 0}, {},
		})
		before := e.lines(t, e.state(t))
		do(c.edits)
		if _, err := e.w.Snapshots().UndoBy(context.Background(), snapshot.UndoByOptions{Actor: "a", MergeRules: snapshot.MergeRules{Theirs: true}, Merge: diff.Merger{}.Merge}); err != nil {
			t.Fatal(i, err)
		}
		for _, p := range c.without {
			delete(before, p)
		}
		if got := e.lines(t, e.state(t)); !maps.Equal(got, before) {
			t.Errorf("%d: %v instead of %v", i, got, before)
		}
	}
}

// spread adds to a set of paths each group that has one of them.
func spread(set map[string]bool, groups []map[string]bool) {
	for range groups {
		for _, names := range groups {
			for p := range names {
				if set[p] {
					maps.Copy(set, names)
				}
			}
		}
	}
}

func union(all ...map[string]string) map[string]bool {
	out := map[string]bool{}
	for _, m := range all {
		for p := range m {
			out[p] = true
		}
	}
	return out
}

// blocked reports whether something other than a directory was above a path at some time.
func blocked(p string, files map[string]bool) bool {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if files[dir] {
			return true
		}
	}
	return false
}

// BenchmarkUndoBy undoes changes of 100,000 files, which is to take no more than 2 s.
func BenchmarkUndoBy(b *testing.B) {
	s, err := snapshot.Open(b.TempDir(), snapshot.Options{Quiet: true})
	must.OK(b, err)
	defer s.Close()
	e := editor{s: s, w: s.Main(), actor: "start"}
	var ids []live.NodeID
	for d := range 100 {
		dir, err := e.forest().Create(e.w.Root(), fmt.Sprint(d), live.NewNode{Mode: unix.S_IFDIR | 0o755})
		for n := 0; err == nil && n < 1000; n++ {
			var a live.Attr
			if a, err = e.forest().Create(dir.ID, fmt.Sprint(n), live.NewNode{Mode: unix.S_IFREG | 0o644}); err == nil {
				ids = append(ids, a.ID)
				_, err = e.forest().Write(a.ID, []byte("before\n"), 0, false)
			}
		}
		must.OK(b, err)
	}
	e.captureAs(b, "before")
	e.actor = "a"
	for _, id := range ids {
		_, err = e.forest().Write(id, []byte("after\n"), 0, false)
		must.OK(b, err)
	}
	e.captureAs(b, "after")
	_, err = e.w.Snapshots().WaitSealed(context.Background(), "after")
	must.OK(b, err)
	for b.Loop() {
		done, err := e.w.Snapshots().UndoBy(context.Background(), snapshot.UndoByOptions{Actor: "a", Merge: diff.Merger{}.Merge})
		if err != nil || done.Changed != len(ids) {
			b.Fatal(done.Changed, err)
		}
		b.StopTimer()
		_, err = e.w.Restore(context.Background(), snapshot.RestoreOptions{Name: done.Undo})
		must.OK(b, err)
		b.StartTimer()
	}
}

// TestUndoByAfterKill: recovery makes the steps of an undo again, also of contents that were
// not stored yet.
func TestUndoByAfterKill(t *testing.T) {
	names := []string{"a", "b", "d", "d/a", "d/b", "e"}
	whats := []string{"create", "text", "text", "mkdir", "line", "line", "save", "rm", "mv", "ln", "chmod", "xattr"}
	rnd := rand.New(rand.NewPCG(3, 4))
	changed := 0
	for range 10 {
		dir := t.TempDir()
		s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
		must.OK(t, err)
		defer s.Close()
		e := editor{s: s, w: s.Main()}
		for n := range 40 {
			_ = e.do(edit{[]string{"a", "b", "c"}[rnd.IntN(3)], whats[rnd.IntN(len(whats))], names[rnd.IntN(len(names))], names[rnd.IntN(len(names))], rnd.IntN(99)})
			e.captureAs(t, fmt.Sprint("s", n))
		}
		done, err := e.w.Snapshots().UndoBy(t.Context(), snapshot.UndoByOptions{Actor: "a", MergeRules: snapshot.MergeRules{Theirs: true}, Merge: diff.Merger{}.Merge})
		must.OK(t, err)
		changed += done.Changed
		want := fmt.Sprint(linesOf(t, e))
		must.OK(t, s.Sync())
		killed := path.Join(t.TempDir(), "store")
		must.CopyStore(t, killed, dir)
		again, err := snapshot.Open(killed, snapshot.Options{Quiet: true})
		must.OK(t, err)
		defer again.Close()
		if got := fmt.Sprint(linesOf(t, editor{s: again, w: again.Main()})); got != want {
			t.Errorf("after recovery:\n%s\nand not\n%s", got, want)
		}
	}
	if changed == 0 {
		t.Error("nothing was undone")
	}
}

func linesOf(t *testing.T, e editor) (lines map[string]string) {
	st, err := e.w.State()
	must.OK(t, err)
	return e.lines(t, st)
}
