package hostdir

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// A side is a tree that a corpus changes: a directory of the host, or a state.
type side interface {
	write(p, text string)
	mkdir(p string)
	symlink(p, to string)
	remove(p string)
	rename(p, q string)
	link(p, q string)
	chmod(p string, mode uint32)
	setxattr(p, name, value string)
}

// hostSide is a directory.
type hostSide struct {
	t   *testing.T
	dir string
}

func (h hostSide) at(p string) string { return filepath.Join(h.dir, p) }
func (h hostSide) write(p, text string) {
	must.OK(h.t, os.WriteFile(h.at(p), []byte(text), 0o644))
}
func (h hostSide) mkdir(p string)       { must.OK(h.t, os.Mkdir(h.at(p), 0o755)) }
func (h hostSide) symlink(p, to string) { must.OK(h.t, os.Symlink(to, h.at(p))) }
func (h hostSide) remove(p string)      { must.OK(h.t, os.RemoveAll(h.at(p))) }
func (h hostSide) rename(p, q string)   { must.OK(h.t, os.Rename(h.at(p), h.at(q))) }
func (h hostSide) link(p, q string)     { must.OK(h.t, os.Link(h.at(p), h.at(q))) }
func (h hostSide) chmod(p string, mode uint32) {
	must.OK(h.t, os.Chmod(h.at(p), os.FileMode(mode)))
}
func (h hostSide) setxattr(p, name, value string) {
	must.OK(h.t, unix.Setxattr(h.at(p), name, []byte(value), 0))
}

// stateSide is a later version of a state.
type stateSide struct {
	*applied
	st *tree.State
}

func (s stateSide) editor() *tree.Editor {
	return &tree.Editor{State: s.st, Source: s.m.Src, Epoch: s.m.Epoch, Time: trees.SomeTime + 1}
}

func (s stateSide) edit(p string, do func(e *tree.Editor, parent uint64, name string)) {
	s.t.Helper()
	e := s.editor()
	parent, name := s.m.Parent(s.t, s.st, p)
	do(e, parent, name)
	must.OK(s.t, e.Err())
}

func (s stateSide) write(p, text string) {
	n, err := s.st.InodeAt(s.m.Src, p)
	must.OK(s.t, err)
	if n == nil {
		s.m.Add(s.t, s.st, p, trees.File(text))
		return
	}
	n = s.own(s.st, p)
	n.Content, n.Mtime = s.m.Content(s.t, text), n.Mtime+1
}
func (s stateSide) mkdir(p string)       { s.m.Add(s.t, s.st, p, trees.Dir()) }
func (s stateSide) symlink(p, to string) { s.m.Add(s.t, s.st, p, trees.Link(to)) }
func (s stateSide) remove(p string) {
	s.edit(p, func(e *tree.Editor, parent uint64, name string) {
		e.RemoveAll(parent, name, func(uint64, string, *tree.Inode, bool) {})
	})
}
func (s stateSide) rename(p, q string) {
	s.edit(p, func(e *tree.Editor, parent uint64, name string) {
		to, toName := s.m.Parent(s.t, s.st, q)
		e.Rename(tree.Link{Parent: parent, Name: name}, tree.Link{Parent: to, Name: toName})
	})
}
func (s stateSide) link(p, q string) { s.m.Add(s.t, s.st, q, trees.Node{Hard: p}) }
func (s stateSide) chmod(p string, mode uint32) {
	n := s.own(s.st, p)
	n.Mode = n.Type() | mode
}
func (s stateSide) setxattr(p, name, value string) { s.own(s.st, p).SetXattr(name, []byte(value)) }

// lined returns a text of eight lines: the given text with one changed line, or a new text.
func lined(r *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) < 8 {
		lines = strings.SplitAfter(strings.Repeat("line\n", 8), "\n")
	}
	lines[r.IntN(8)] = fmt.Sprintf("%d\n", r.IntN(3))
	return strings.Join(lines, "")
}

// A fileIn has the properties of the file at a path of a tree that the test compares.
type fileIn struct {
	kind, mode uint32
	data       string
	xattrs     string
	file       string // equal for the names of one file
}

func (f fileIn) isDir() bool { return f.kind == unix.S_IFDIR }

// equal reports whether two files are equal, apart from their names.
func (f fileIn) equal(g fileIn) bool { f.file = g.file; return f == g }

type files map[string]fileIn

func filesOf(t *testing.T, dir string) files {
	t.Helper()
	out := files{}
	must.OK(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		var st unix.Stat_t
		must.OK(t, unix.Lstat(p, &st))
		f := fileIn{kind: st.Mode & unix.S_IFMT, mode: st.Mode & 0o7777, file: fmt.Sprint(st.Ino)}
		switch f.kind {
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			must.OK(t, err)
			f.data = string(b)
		case unix.S_IFLNK:
			f.data, err = os.Readlink(p)
			must.OK(t, err)
		}
		if f.kind != unix.S_IFLNK {
			xs, err := readXattrs(p, make([]byte, 64<<10))
			must.OK(t, err)
			f.xattrs = fmt.Sprintf("%s", xs)
		}
		rel, err := filepath.Rel(dir, p)
		out[rel] = f
		return err
	}))
	return out
}

func (a *applied) filesIn(st *tree.State) files {
	a.t.Helper()
	out := files{}
	must.OK(a.t, st.Walk(context.Background(), a.m.Src, tree.WalkOptions{}, func(p *tree.Path, n *tree.Inode) error {
		if p == nil {
			return nil
		}
		f := fileIn{kind: n.Type(), mode: n.Mode & 0o7777, data: n.Target, file: fmt.Sprint(n.Ino)}
		if n.IsRegular() {
			b := make([]byte, n.Size())
			_, err := n.Content.ReadAt(a.m.Src.Files, b, 0)
			must.OK(a.t, err)
			f.data = string(b)
		}
		if !n.IsSymlink() {
			f.xattrs = fmt.Sprintf("%s", n.Xattrs)
		}
		out[p.String()] = f
		return nil
	}))
	return out
}

// change makes some changes of one side. have are its paths before.
func change(r *rand.Rand, s side, have files) {
	kinds := maps.Clone(have)
	names := []string{"a", "b", "c", "d"}
	gone := func(p string) {
		for q := range kinds {
			if q == p || strings.HasPrefix(q, p+"/") {
				delete(kinds, q)
			}
		}
	}
	for range 1 + r.IntN(4) {
		all := slices.Sorted(maps.Keys(kinds))
		dirs := []string{""}
		for _, p := range all {
			if kinds[p].isDir() && strings.Count(p, "/") < 2 {
				dirs = append(dirs, p+"/")
			}
		}
		fresh := dirs[r.IntN(len(dirs))] + names[r.IntN(len(names))]
		_, taken := kinds[fresh]
		if len(all) == 0 {
			continue
		}
		p := all[r.IntN(len(all))]
		f := kinds[p]
		switch k := r.IntN(12); {
		case k < 3 && f.kind == unix.S_IFREG:
			f.data = lined(r, f.data)
			s.write(p, f.data)
			for q, g := range kinds {
				if g.file == f.file && g.kind == f.kind {
					g.data = f.data
					kinds[q] = g
				}
			}
		case k == 3 && f.kind != unix.S_IFLNK:
			s.chmod(p, []uint32{0o600, 0o640, 0o644, 0o755}[r.IntN(4)]|f.mode&0o700&^0o600)
		case k == 4 && f.kind == unix.S_IFREG:
			s.setxattr(p, fmt.Sprint("user.", names[r.IntN(2)]), fmt.Sprint(r.IntN(2)))
		case k == 5:
			s.remove(p)
			gone(p)
		case (k == 6 || k == 7) && !taken && !strings.HasPrefix(fresh+"/", p+"/"):
			s.rename(p, fresh)
			for _, q := range all {
				if q == p || strings.HasPrefix(q, p+"/") {
					kinds[fresh+q[len(p):]] = kinds[q]
				}
			}
			gone(p)
		case k == 8 && !taken && !f.isDir():
			s.link(p, fresh)
			kinds[fresh] = f
		case k == 9 && !taken:
			text := lined(r, "")
			s.write(fresh, text)
			kinds[fresh] = fileIn{kind: unix.S_IFREG, data: text, file: "new " + fresh}
		case k == 10 && !taken:
			s.mkdir(fresh)
			kinds[fresh] = fileIn{kind: unix.S_IFDIR, mode: 0o755}
		case k == 11:
			s.remove(p)
			gone(p)
			switch r.IntN(3) {
			case 0:
				s.symlink(p, names[r.IntN(2)])
				kinds[p] = fileIn{kind: unix.S_IFLNK, file: "new " + p}
			case 1:
				s.mkdir(p)
				kinds[p] = fileIn{kind: unix.S_IFDIR, mode: 0o755}
			case 2:
				s.write(p, lined(r, ""))
				kinds[p] = fileIn{kind: unix.S_IFREG, file: "new " + p, data: "1"}
			}
		}
	}
}

// A triple is a directory that had a base, and two states.
type triple struct {
	*applied
	base, now         *tree.State
	was, ours, theirs files
}

func newTriple(t *testing.T, from rand.Source) *triple {
	r := rand.New(from)
	a := newApplied(t)
	a.dir = filepath.Join(a.dir, "triple")
	must.OK(t, os.Mkdir(a.dir, 0o755))
	s := trees.Spec{"d/a": trees.File(lined(r, "")), "d/e/b": trees.File(lined(r, "")), "f": trees.File(lined(r, "")), "d/h": trees.File(lined(r, "")), "h1": {Hard: "d/h"}, "h2": {Hard: "d/h"},
		"l": trees.Link("f"), "x": trees.Exe(lined(r, ""))}
	x := &triple{applied: a, base: a.start(s)}
	x.was = filesOf(t, a.dir)
	x.now = a.edited(x.base, func(now *tree.State) { change(r, stateSide{a, now}, a.filesIn(now)) })
	change(r, hostSide{t, a.dir}, x.was)
	x.ours, x.theirs = filesOf(t, a.dir), a.filesIn(x.now)
	return x
}

func (f files) text() string {
	var out strings.Builder
	for _, p := range slices.Sorted(maps.Keys(f)) {
		var names []string
		for q, g := range f {
			if g.file == f[p].file && q != p {
				names = append(names, q)
			}
		}
		slices.Sort(names)
		fmt.Fprintf(&out, "  %s %o %o %q %s =%v\n", p, f[p].kind, f[p].mode, f[p].data, f[p].xattrs, names)
	}
	return out.String()
}

// TestCorpus applies random triples, and checks what each path has afterwards by rules that need no merge:
// what one side alone changed is as on that side, an equal change is no conflict, each attribute alone
// follows these rules, and a refused apply changes nothing.
func TestCorpus(t *testing.T) {
	seed := harness.RandomSeed(t)
	for i := range uint64(harness.Count(t, "TRIPLES", 60, 20_000)) {
		for _, rule := range tripleRules {
			checkTriple(t, rand.NewPCG(seed+i, 59), rule, fmt.Sprint("seed ", seed+i))
		}
	}
}

// FuzzTriple is TestCorpus with choices from bytes.
func FuzzTriple(f *testing.F) {
	f.Add([]byte("a merge of two sides"), byte(0))
	f.Fuzz(func(t *testing.T, choices []byte, rule byte) {
		source := byteSource(choices)
		checkTriple(t, &source, tripleRules[int(rule)%len(tripleRules)], "bytes")
	})
}

var tripleRules = []threeway.Rule{threeway.RefuseConflicts, threeway.KeepOurs, threeway.TakeTheirs}

// A byteSource yields one byte a number, and afterwards numbers that differ.
type byteSource []byte

func (s *byteSource) Uint64() (n uint64) {
	if len(*s) == 0 {
		*s = []byte("choices without bytes")
	}
	n, *s = uint64((*s)[0])<<56|0xffff<<16, (*s)[1:]
	return n
}

// checkTriple applies one random triple.
func checkTriple(t *testing.T, from rand.Source, rule threeway.Rule, name string) {
	x := newTriple(t, from)
	o := ApplyOptions{Source: x.m.Src, Base: x.base, Now: x.now, MergeLines: trees.MergeByGit, ConflictRule: rule}
	res, err := Apply(context.Background(), x.dir, o)
	if err != nil && !errors.Is(err, ErrConflict) {
		t.Fatalf("%s, rule %q: %v", name, rule, err)
	}

	got := filesOf(t, x.dir)
	wrong := x.check(got, res.Conflicts, err)
	if err == nil && len(res.Conflicts) == 0 && !x.isMerged() {
		if res, err := Apply(context.Background(), x.dir, o); err != nil || res.Changed > 0 || len(res.Conflicts) > 0 {
			wrong = append(wrong, fmt.Sprintf("again: %+v, %v", res.Paths, err))
		}
	}
	if len(wrong) > 0 {
		t.Errorf("%s, rule %q: %s\nconflicts %q, %v\nbase:\n%sthe directory:\n%sthe workspace:\n%sresult:\n%s", name, rule,
			strings.Join(wrong, "; "), res.Conflicts, err, x.was.text(), x.ours.text(), x.theirs.text(), got.text())
	}
	must.OK(t, os.RemoveAll(x.dir))
}

// check describes the faults of a result.
func (x *triple) check(got files, conflicts []string, err error) (wrong []string) {
	if err != nil {
		for p, f := range x.ours {
			if got[p] != f {
				wrong = append(wrong, p+" changed in a refused apply")
			}
		}
		if len(got) != len(x.ours) {
			wrong = append(wrong, "a refused apply changed names")
		}
	}
	at := func(f files, p string) *fileIn {
		if g, ok := f[p]; ok {
			return &g
		}
		return nil
	}
	same := func(f, g *fileIn) bool { return f == nil && g == nil || f != nil && g != nil && f.equal(*g) }
	near := func(p string) bool { // a path above or below is in conflict
		return slices.ContainsFunc(conflicts, func(c string) bool {
			return c == p || strings.HasPrefix(p, c+"/") || strings.HasPrefix(c, p+"/")
		})
	}
	for _, p := range conflicts {
		b, o, n := at(x.was, p), at(x.ours, p), at(x.theirs, p)
		if same(o, n) && !x.linked(p) || same(o, b) && same(n, b) {
			wrong = append(wrong, p+" is in conflict, and equal")
		}
	}
	if err != nil {
		return wrong
	}
	all := slices.Concat(slices.Collect(maps.Keys(x.was)), slices.Collect(maps.Keys(x.ours)), slices.Collect(maps.Keys(x.theirs)), slices.Collect(maps.Keys(got)))
	slices.Sort(all)
	for _, p := range slices.Compact(all) {
		b, o, n, is := at(x.was, p), at(x.ours, p), at(x.theirs, p), at(got, p)
		if near(p) || x.linked(p) {
			continue
		}
		var want *fileIn
		switch {
		case same(n, b), same(o, n):
			want = o
		case same(o, b):
			want = n
		default:
			if text := merged(b, o, n, is); text != "" {
				wrong = append(wrong, p+text)
			}
			continue
		}
		if !same(is, want) && !(is != nil && is.isDir() && x.hasBelow(got, p)) {
			wrong = append(wrong, p+" is not what one side made of it")
		}
	}
	return wrong
}

// isMerged reports whether a path has another version on each side: merged lines need not merge once more.
func (x *triple) isMerged() bool {
	for p, o := range x.ours {
		b, n := x.was[p], x.theirs[p]
		if !o.equal(b) && !n.equal(b) && !o.equal(n) {
			return true
		}
	}
	return false
}

// merged describes the fault of the file is, the merge of two different changes of one path, "" if it has none.
func merged(b, o, n, is *fileIn) string {
	for _, left := range []*fileIn{o, n} { // both removed the file of the base, and one put another kind in its place
		if b != nil && left != nil && (o == nil || n == nil) && left.kind != b.kind && is != nil && is.equal(*left) {
			return ""
		}
	}
	if b == nil || o == nil || n == nil || is == nil || o.kind != b.kind || n.kind != b.kind {
		return " is merged of two kinds"
	}
	if !either(b.mode, o.mode, n.mode, is.mode) {
		return " has a mode that neither side gave it alone"
	}
	if o.data == b.data || n.data == b.data {
		if !either(b.data, o.data, n.data, is.data) {
			return " has not the contents of the side that changed them"
		}
	}
	return ""
}

// either reports whether is, the result of a merge, is a value that the rules allow: the value of the side that
// changed the value b of the base or, if both sides changed it, their equal value.
func either[T comparable](b, o, n, is T) bool {
	return n == b && is == o || n != b && (o == b || o == n) && is == n
}

func (x *triple) hasBelow(f files, dir string) bool {
	for p := range f {
		if path.Dir(p) == dir {
			return true
		}
	}
	return false
}

// linked reports whether a path is a name of a file with several, on one of the sides.
func (x *triple) linked(p string) bool {
	for _, f := range []files{x.was, x.ours, x.theirs} {
		is, ok := f[p]
		for q, g := range f {
			if ok && q != p && g.file == is.file && !g.isDir() {
				return true
			}
		}
	}
	return false
}
