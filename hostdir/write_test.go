package hostdir

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// written returns a writer for the differences between two states, without a planner. The directory is equal to the
// first state.
func (a *applied) written(from, to *tree.State) *writer {
	a.t.Helper()
	h, err := openHost(a.dir)
	must.OK(a.t, err)
	a.t.Cleanup(h.close)
	w := newWriter(a.t.Context(), h, ApplyOptions{Source: a.m.Src, Base: from, Now: to}, &ApplyResult{Dir: a.dir})
	files := make(map[uint64]*hostFile)
	must.OK(a.t, tree.Diff(w.ctx, a.m.Src, from, to, tree.DiffOptions{}, func(c tree.Change) error {
		s := &step{change: c, action: write}
		switch {
		case c.After == nil:
			s.action = remove
		case c.After.IsDir():
			s.action = makeDir
		}
		s.original, err = h.entryAt(c.Path)
		if c.Before != nil && c.After != nil && c.Before.IsDir() && c.After.IsDir() {
			s.action = changeAttributes
		}
		if s.action == write {
			if files[c.After.Ino] == nil {
				files[c.After.Ino] = &hostFile{}
			}
			s.file = files[c.After.Ino]
		}
		w.steps = append(w.steps, s)
		return err
	}))
	return w
}

var (
	killedFrom = trees.Spec{"same": trees.File("s"), "f": trees.File("1"), "x": trees.File("x"), "gone/a": trees.File("a"), "gone/b/c": trees.File("c"),
		"was/file": trees.File("w"), "is": trees.File("i"), "h1": trees.File("h"), "h2": trees.Node{Hard: "h1"}, "d/old": trees.File("o")}
	killedTo = trees.Spec{"same": trees.File("s"), "f": trees.File("2"), "x": trees.Exe("x"), "was": trees.File("no directory"), "is/one": trees.File("1"),
		"h1": trees.File("H"), "h2": trees.Node{Hard: "h1"}, "h3": trees.Node{Hard: "h1"}, "d/new": trees.File("n"), "new/e/f": trees.File("f"), "l": trees.Link("f")}
)

// TestWriter: a writer makes the directory equal to the second state.
func TestWriter(t *testing.T) {
	a, want := newApplied(t), newApplied(t)
	from := a.start(killedFrom)
	want.start(killedTo)
	w := a.written(from, a.m.State(t, killedTo))
	must.OK(t, w.run())
	wantSame(t, "the directory", has(t, a.dir), has(t, want.dir))
	for _, s := range w.steps {
		if s.state != done {
			t.Errorf("%s is not done, but %d", s.change.Path.Short(), s.state)
		}
	}
}

// TestWriterKilled: a writer is killed after each change of a step's state. Then every path has its old or its new
// version, and the next apply completes the change.
func TestWriterKilled(t *testing.T) {
	want := newApplied(t)
	want.start(killedTo)
	is := has(t, want.dir)
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	for n := 1; ; n++ {
		a := newApplied(t)
		from := a.start(killedFrom)
		now, was := a.m.State(t, killedTo), has(t, a.dir)
		w := a.written(from, now)
		killed, ended := make(chan *step), make(chan error)
		left := n
		w.onAdvance = func(s *step) {
			if left--; left == 0 {
				killed <- s
				select {}
			}
		}
		go func() { ended <- w.run() }()
		select {
		case err := <-ended:
			must.OK(t, err)
			if n < len(w.steps) {
				t.Errorf("%d steps had %d states", len(w.steps), n-1)
			}
			return
		case s := <-killed:
			for p, text := range allOf(has(t, a.dir), was, is) {
				if text != was[p] && text != is[p] && !isTemp.MatchString(p) {
					t.Errorf("after %q had the state %d: %s is %q, was %q, is to be %q", s.change.Path.Short(), s.state, p, text, was[p], is[p])
				}
			}
		}
		_, err := a.apply(from, now, ApplyOptions{})
		must.OK(t, err)
		wantSame(t, "after the next apply", has(t, a.dir), is)
		if t.Failed() {
			return
		}
	}
}

var isTemp = regexp.MustCompile(`(^|/)\.amberfs-apply-`)

// allOf adds to now the paths that only the other trees have, each with "", and returns now.
func allOf(now map[string]string, others ...map[string]string) map[string]string {
	for _, o := range others {
		for p := range o {
			if _, ok := now[p]; !ok {
				now[p] = ""
			}
		}
	}
	return now
}

// TestDiscardKeepsAMovedFile: a file that is renamed to its new name by way of a temporary name has no other name.
// Neither the cleanup after an error nor the next apply removes it.
func TestDiscardKeepsAMovedFile(t *testing.T) {
	for name, end := range map[string]func(w *writer, dir string){
		"an error": func(w *writer, _ string) { w.discardStaged() },
		"a kill": func(w *writer, dir string) {
			s := w.staged[0]
			_, err := w.placer.exchange(w.host.rootFD, s)
			must.OK(t, err)
			must.OK(t, unix.Renameat2(w.host.rootFD, s.tempName, w.host.rootFD, s.change.Path.Name, unix.RENAME_EXCHANGE)) // as before
			next := newWriter(t.Context(), w.host, ApplyOptions{}, &ApplyResult{})
			next.host.lockFile = new(os.File)
			must.OK(t, next.dirs.sweepDir(nil))
		},
	} {
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, "old"), []byte("bytes"), 0o644))
		must.OK(t, os.Mkdir(filepath.Join(dir, "new"), 0o755))
		h, err := openHost(dir)
		must.OK(t, err)
		t.Cleanup(h.close)
		w := newWriter(t.Context(), h, ApplyOptions{}, &ApplyResult{})
		s := &step{change: tree.Change{Path: (*tree.Path)(nil).ChildUnchecked("new")}, action: write, placement: moveName, fromPath: (*tree.Path)(nil).ChildUnchecked("old")}
		s.original, err = h.entryAt(s.change.Path)
		must.OK(t, err)
		w.staged = []*step{s}
		must.OK(t, w.moveTo(s, false))
		end(w, dir)
		var kept []string
		for p, text := range has(t, dir) {
			if strings.HasSuffix(text, " bytes") {
				kept = append(kept, p)
			}
		}
		if len(kept) != 1 || !strings.HasPrefix(kept[0], ".amberfs-kept-") {
			t.Errorf("after %s the file is at %q: %v", name, kept, has(t, dir))
		}
	}
}

// relinked makes some changes of files and their names: contents are changed in place or in a new file, and names are
// removed, moved or linked, also onto names of other files.
func (a *applied) relinked(r *rand.Rand, st *tree.State) *tree.State {
	return a.edited(st, func(now *tree.State) {
		s := stateSide{a, now}
		for range 2 + r.IntN(5) {
			has := a.filesIn(now)
			names := slices.Sorted(maps.Keys(has))
			names = slices.DeleteFunc(names, func(p string) bool { return has[p].isDir() })
			p, to := names[r.IntN(len(names))], []string{"a", "b", "c", "d/e", "d/f", "d/g"}[r.IntN(6)]
			replace := func(do func()) {
				if _, taken := has[to]; taken && to != p {
					s.remove(to)
				}
				if to != p {
					do()
				}
			}
			switch r.IntN(6) {
			case 0:
				s.write(p, fmt.Sprint("written ", r.IntN(1000)))
			case 1:
				replace(func() { s.write(to, fmt.Sprint("new ", r.IntN(1000))) })
			case 2:
				if len(names) > 2 {
					s.remove(p)
				}
			case 3:
				s.chmod(p, []uint32{0o600, 0o755}[r.IntN(2)])
			case 4:
				replace(func() { s.rename(p, to) })
			case 5:
				replace(func() { s.link(p, to) })
			}
		}
	})
}

// TestApplyKilledAmongLinks: an apply that changes, moves and links files is killed after each change of a step's state.
// The next apply completes it, so that each name is a hard link of the file that the workspace has there.
func TestApplyKilledAmongLinks(t *testing.T) {
	spec := trees.Spec{"a": trees.File("1"), "b": trees.File("2"), "c": {Hard: "b"}, "d/e": trees.File("3"), "d/f": {Hard: "a"}}
	seeds := uint64(harness.Count(t, "SEEDS", 12, 3000))
	for seed := harness.NumberFromEnv(t, "SEED", 0); seed < seeds; seed++ {
		for n := 1; n > 0; n++ {
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			a := newApplied(t)
			r := rand.New(rand.NewPCG(seed, 7))
			base := a.start(spec)
			if seed%2 == 1 {
				base = a.relinked(r, base)
				a.dir = t.TempDir()
				_, err := a.apply(a.m.State(t, trees.Spec{}), base, ApplyOptions{})
				must.OK(t, err)
			}
			now := a.relinked(r, base)
			killed, ended := make(chan *step), make(chan error)
			left := n
			go func() {
				o := ApplyOptions{Source: a.m.Src, Base: base, Now: now}
				_, err := apply(context.Background(), a.dir, o, func(s *step) {
					if left--; left == 0 {
						killed <- s
						select {}
					}
				})
				ended <- err
			}()
			at := "the end"
			select {
			case err := <-ended:
				must.OK(t, err)
				n = -1
			case s := <-killed:
				at = fmt.Sprintf("%s had the state %d", s.change.Path.Short(), s.state)
			}
			before := filesOf(t, a.dir).text()
			t.Setenv("XDG_STATE_HOME", t.TempDir()) // the killed one has no locks
			if _, err := a.apply(base, now, ApplyOptions{}); err != nil {
				t.Errorf("seed %d, after %s: %v", seed, at, err)
			}
			if got, want := filesOf(t, a.dir).text(), a.filesIn(now).text(); got != want {
				t.Errorf("seed %d, after %s:\n%swant\n%s", seed, at, got, want)
			}
			if t.Failed() {
				t.Fatalf("the base was\n%sand the next apply found\n%s", a.filesIn(base).text(), before)
			}
		}
	}
}
