package threeway_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// linkSide changes files of a workspace by name.
type linkSide struct {
	t *testing.T
	s *snapshot.Store
	w *snapshot.Workspace
}

func (l linkSide) do(what ...string) {
	l.t.Helper()
	f, root := l.s.Forest(), l.w.Root()
	for _, line := range what {
		var err error
		switch x := strings.Fields(line); x[0] {
		case "write":
			stores.Write(l.t, l.s, root, x[1], strings.Join(x[2:], "\n")+"\n")
		case "symlink":
			_, err = f.Create(root, x[1], live.NewNode{Mode: unix.S_IFLNK | 0o777, Target: x[2]})
		case "rm":
			_, err = f.Unlink(root, x[1])
		case "mkdir":
			_, err = f.Create(root, x[1], live.NewNode{Mode: unix.S_IFDIR | 0o755})
		case "rmdir":
			_, err = f.Rmdir(root, x[1])
		case "link": // ln -f
			_, _ = f.Unlink(root, x[2])
			var a live.Attr
			if a, err = f.Lookup(root, x[1]); err == nil {
				_, err = f.Link(a.ID, root, x[2])
			}
		case "split": // cp, rm, mv
			text := stores.Read(l.t, l.s, root, x[1])
			if _, err = f.Unlink(root, x[1]); err == nil {
				stores.Write(l.t, l.s, root, x[1], text)
			}
		}
		if err != nil {
			l.t.Fatalf("%s: %v", line, err)
		}
	}
}

// files are the files of a workspace: those that are one file together, and the content.
func (l linkSide) files() string {
	l.t.Helper()
	st, err := l.w.State()
	must.OK(l.t, err)
	names, inodes, targets := map[uint64][]string{}, map[uint64]bool{}, map[uint64]string{}
	must.OK(l.t, st.Walk(l.t.Context(), l.s.Source(), tree.WalkOptions{}, func(at *tree.Path, n *tree.Inode) error {
		if inodes[n.Ino] = true; n.IsDir() {
			return nil
		}
		names[n.Ino], targets[n.Ino] = append(names[n.Ino], at.String()), n.Target
		if int(n.Nlink) != len(n.Links) {
			l.t.Errorf("%s has %d links and %d names", at, n.Nlink, len(n.Links))
		}
		return nil
	}))
	if st.Inodes != int64(len(inodes)) {
		l.t.Errorf("the state counts %d inodes, and %d have names", st.Inodes, len(inodes))
	}
	var all []string
	for ino, group := range names {
		if targets[ino] != "" {
			all = append(all, strings.Join(group, "=")+"->"+targets[ino])
			continue
		}
		all = append(all, strings.Join(group, "=")+":"+strings.Join(strings.Fields(stores.Read(l.t, l.s, l.w.Root(), group[0])), ","))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestMergeOfLinks(t *testing.T) {
	for _, c := range []struct {
		what             string
		base, main, fork []string
		files            string // afterwards
		changed          string
		conflicts        string // refused
		theirs, ours     string // with --theirs and --ours
	}{{
		what: "the fork separates, main writes",
		base: []string{"write a 1 2", "link a b"}, main: []string{"write a X 2"}, fork: []string{"split b"},
		files: "a:X,2 b:X,2", changed: "[{b modified}]",
	}, {
		what: "the fork links a name in the place of a directory",
		base: []string{"mkdir d"}, main: []string{"write z 1"}, fork: []string{"rmdir d", "write a 1 2", "link a d"},
		files: "a=d:1,2 z:1", changed: "[{a created} {d modified}]",
	}, {
		what: "the fork puts a symbolic link in the place of one name, main links and writes another",
		base: []string{"write a 1 2"}, main: []string{"link a b", "write b X 2"}, fork: []string{"rm a", "symlink a x"},
		files: "a->x b:X,2", changed: "[{a modified}]",
	}, {
		what: "the fork puts a symbolic link in the place of a file that main writes",
		base: []string{"write a 1 2"}, main: []string{"write a X 2"}, fork: []string{"rm a", "symlink a x"},
		conflicts: "[a]", theirs: "a->x", ours: "a:X,2",
	}, {
		what: "main puts a symbolic link in the place of one of two names, the fork writes",
		base: []string{"write a 1 2", "link a b"}, main: []string{"rm b", "symlink b x"}, fork: []string{"write a X 2"},
		files: "a:X,2 b->x", changed: "[{a modified}]",
	}, {
		what: "main separates, the fork writes",
		base: []string{"write a 1 2", "link a b"}, main: []string{"split b"}, fork: []string{"write a X 2"},
		files: "a:X,2 b:X,2", changed: "[{a modified} {b modified}]",
	}, {
		what: "both write to other lines",
		base: []string{"write a 1 2", "link a b"}, main: []string{"write a X 2"}, fork: []string{"write b 1 Y"},
		files: "a=b:X,Y", changed: "[{a modified} {b modified}]",
	}, {
		what: "both write the same",
		base: []string{"write a 1 2", "link a b"}, main: []string{"write a X 2"}, fork: []string{"write b X 2"},
		files: "a=b:X,2", changed: "[]",
	}, {
		what: "both write to one line",
		base: []string{"write a 1 2", "link a b"}, main: []string{"write a X 2"}, fork: []string{"write a Y 2"},
		conflicts: "[a b]", theirs: "a=b:Y,2", ours: "a=b:X,2",
	}, {
		what: "the fork links one more name, main writes",
		base: []string{"write a 1 2"}, main: []string{"write a X 2"}, fork: []string{"link a b"},
		files: "a=b:X,2", changed: "[{b created}]",
	}, {
		what: "both link more names",
		base: []string{"write a 1 2"}, main: []string{"link a b"}, fork: []string{"link a c", "write a X 2"},
		files: "a=b=c:X,2", changed: "[{a modified} {b modified} {c created}]",
	}, {
		what: "the fork links two files, main writes to the one that stays",
		base: []string{"write a 1 2", "write b 3 4"}, main: []string{"write a X 2"}, fork: []string{"link a b"},
		files: "a=b:X,2", changed: "[{b modified}]",
	}, {
		what: "the fork links two files, main writes to the one that goes",
		base: []string{"write a 1 2", "write b 3 4"}, main: []string{"write b X 4"}, fork: []string{"link a b"},
		conflicts: "[b]", theirs: "a=b:1,2", ours: "a:1,2 b:X,4",
	}, {
		what: "main links two files, the fork writes to the one that goes",
		base: []string{"write a 1 2", "write b 3 4"}, main: []string{"link a b"}, fork: []string{"write b X 4"},
		conflicts: "[b]", theirs: "a:1,2 b:X,4", ours: "a=b:1,2",
	}, {
		what: "both separate",
		base: []string{"write a 1 2", "link a b"}, main: []string{"split b", "write b X 2"}, fork: []string{"split b", "write a 1 Y"},
		files: "a:1,Y b:X,2", changed: "[{a modified}]",
	}, {
		what: "one name is removed, the other written",
		base: []string{"write a 1 2", "link a b"}, main: []string{"write x x", "rm b"}, fork: []string{"write a X 2"},
		files: "a:X,2 x:x", changed: "[{a modified}]",
	}} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			for _, rule := range []threeway.Rule{threeway.RefuseConflicts, threeway.TakeTheirs, threeway.KeepOurs} {
				if c.conflicts == "" && rule != threeway.RefuseConflicts && os.Getenv("AMBERFS_TEST_LONG") == "" {
					continue
				}
				dir := t.TempDir()
				s := stores.Open(t, dir)
				main := linkSide{t, s, s.Main()}
				main.do(c.base...)
				f, err := s.Main().Forks().New(snapshot.ForkOptions{Name: "f"})
				must.OK(t, err)
				main.do(c.main...)
				linkSide{t, s, f}.do(c.fork...)
				before := main.files()
				res, err := s.Main().Forks().Merge(t.Context(), snapshot.MergeOptions{Fork: "f", Merge: stores.MergeLines, MergeRules: snapshot.MergeRules{Ours: rule == threeway.KeepOurs, Theirs: rule == threeway.TakeTheirs}})
				if c.conflicts != "" {
					stores.Want(t, "conflicts", fmt.Sprint(res.Conflicts), c.conflicts)
					if rule == threeway.RefuseConflicts {
						if !errors.Is(err, threeway.ErrConflict) {
							t.Errorf("a conflict is answered with %v", err)
						}
						stores.Want(t, "after that", main.files(), before)
						continue
					}
				}
				must.OK(t, err)
				expected := map[threeway.Rule]string{threeway.TakeTheirs: c.theirs, threeway.KeepOurs: c.ours}[rule]
				if c.conflicts == "" {
					expected = c.files
					stores.Want(t, "changed", stores.Listed(res.Paths), c.changed)
				}
				stores.Want(t, fmt.Sprint("merged by rule ", rule), main.files(), expected)
				stores.Want(t, "whether there is an undo point", fmt.Sprint(res.Undo != ""), fmt.Sprint(res.Changed > 0))
				again := stores.AfterKill(t, s, dir)
				stores.Want(t, "after a kill", linkSide{t, again, again.Main()}.files(), expected)
			}
		})
	}
}

// TestMergeThatBringsNothing leaves the undo point of the merge before.
func TestMergeThatBringsNothing(t *testing.T) {
	for _, split := range []bool{false, true} {
		s := stores.Open(t, t.TempDir())
		main := linkSide{t, s, s.Main()}
		main.do("write u 1 2 3", "link u ul")
		for _, name := range []string{"p", "q"} {
			f, err := s.Main().Forks().New(snapshot.ForkOptions{Name: name})
			must.OK(t, err)
			if split {
				linkSide{t, s, f}.do("split u")
			}
			linkSide{t, s, f}.do("write u 1 X 3")
		}
		for i, name := range []string{"p", "q"} {
			res, err := s.Main().Forks().Merge(t.Context(), snapshot.MergeOptions{Fork: name, Merge: stores.MergeLines})
			must.OK(t, err)
			if (res.Changed > 0) != (i == 0) {
				t.Errorf("merging %s changed %v", name, res.Paths)
			}
		}
		_, err := s.Main().Restore(t.Context(), snapshot.RestoreOptions{Name: "undo"})
		must.OK(t, err)
		stores.Want(t, "undone", main.files(), "u=ul:1,2,3")
	}
}

// TestMergeKeepsADirectory: what the fork removed to put a file in place of a directory stays
// if the directory does.
func TestMergeKeepsADirectory(t *testing.T) {
	s := stores.Open(t, t.TempDir())
	w := s.Main()
	d := stores.Mkdir(t, s, w.Root(), "d")
	stores.Write(t, s, d, "a", "old")
	f, err := w.Forks().New(snapshot.ForkOptions{Name: "f"})
	must.OK(t, err)
	stores.Write(t, s, d, "new", "ours")
	there, err := s.Forest().Lookup(f.Root(), "d")
	must.OK(t, err)
	_, err = s.Forest().Unlink(there.ID, "a")
	must.OK(t, err)
	linkSide{t, s, f}.do("rmdir d", "write d file")
	res, err := w.Forks().Merge(t.Context(), snapshot.MergeOptions{Fork: "f", MergeRules: snapshot.MergeRules{Ours: true}})
	must.OK(t, err)
	stores.Want(t, "conflicts", fmt.Sprint(res.Conflicts), "[d d/new]")
	stores.Want(t, "files", linkSide{t, s, w}.tree(), "d/a d/new")
}

// TestMergeKeeps: kept paths stay as they are with what is below them, also where both changed
// them, and where nothing else changed in the workspace.
func TestMergeKeeps(t *testing.T) {
	for _, changed := range []bool{false, true} {
		s := stores.Open(t, t.TempDir())
		w := linkSide{t, s, s.Main()}
		w.do("write a 1", "write b 1", "write c 1")
		f, err := s.Main().Forks().New(snapshot.ForkOptions{Name: "f"})
		must.OK(t, err)
		d := stores.Mkdir(t, s, f.Root(), "d")
		stores.Write(t, s, d, "new", "theirs")
		linkSide{t, s, f}.do("write a 2", "write b 2", "write n 2")
		if changed {
			w.do("write b 3")
		}
		res, err := s.Main().Forks().Merge(t.Context(), snapshot.MergeOptions{Fork: "f", Keep: []naming.BytePath{"b", "d"}})
		must.OK(t, err)
		if res.Changed != 2 {
			t.Errorf("changed %v", res.Paths)
		}
		stores.Want(t, "kept", w.files(), map[bool]string{false: "a:2 b:1 c:1 n:2", true: "a:2 b:3 c:1 n:2"}[changed])
		stores.Want(t, "files", w.tree(), "a b c n")
		_, err = s.Main().Restore(t.Context(), snapshot.RestoreOptions{Name: "undo"})
		must.OK(t, err)
		stores.Want(t, "undone", w.tree(), "a b c")
	}
}

// TestMergeOfSomeLines: a decision about a file is taken where only the fork changed it, too.
func TestMergeOfSomeLines(t *testing.T) {
	for _, changed := range []bool{false, true} {
		s := stores.Open(t, t.TempDir())
		w := linkSide{t, s, s.Main()}
		w.do("write a 1 2 3", "write b 1")
		base := w.inode("a")
		f, err := s.Main().Forks().New(snapshot.ForkOptions{Name: "f"})
		must.OK(t, err)
		fork := linkSide{t, s, f}
		fork.do("write a X 2 Y", "write n 2")
		if changed {
			w.do("write b 3")
		}
		of, err := threeway.Digest(s.Source(), base, w.inode("a"), fork.inode("a"))
		must.OK(t, err)
		o := snapshot.MergeOptions{Fork: "f", Contents: map[string]threeway.Decision{"a": {Digest: of, Text: "1\n2\nY\n"}}}
		_, err = s.Main().Forks().Merge(t.Context(), o)
		must.OK(t, err)
		stores.Want(t, "files", w.files(), map[bool]string{false: "a:1,2,Y b:1 n:2", true: "a:1,2,Y b:3 n:2"}[changed])
		if _, err := s.Main().Forks().Merge(t.Context(), o); !errors.Is(err, threeway.ErrStaleDecision) {
			t.Errorf("a decision about another text: %v", err)
		}
	}
}

func (l linkSide) inode(path string) *tree.Inode {
	l.t.Helper()
	st, err := l.w.State()
	must.OK(l.t, err)
	n, err := st.Resolve(l.s.Source(), path)
	must.OK(l.t, err)
	return n
}

// tree are the paths of the files of a workspace.
func (l linkSide) tree() string {
	l.t.Helper()
	st, err := l.w.State()
	must.OK(l.t, err)
	var all []string
	must.OK(l.t, st.Walk(l.t.Context(), l.s.Source(), tree.WalkOptions{}, func(at *tree.Path, n *tree.Inode) error {
		if !n.IsDir() {
			all = append(all, at.String())
		}
		return nil
	}))
	return strings.Join(all, " ")
}
