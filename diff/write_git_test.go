package diff

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// visible returns the files that git records.
func (s spec) visible() spec {
	out := maps.Clone(s)
	maps.DeleteFunc(out, func(_ string, n node) bool { return n.mode == unix.S_IFDIR || n.mode == unix.S_IFIFO })
	return out
}

func patch(t testing.TB, m *memory, a, b *tree.State) string {
	t.Helper()
	var out bytes.Buffer
	err := Write(context.Background(), &out, m.src, a, b, Options{Binary: true})
	must.OK(t, err)
	return out.String()
}

// compareWithGit compares the outputs of this package for two trees with git: the list with git diff --no-index, and
// the statistics with git diff in a repository. It applies the patch forwards and backwards.
func compareWithGit(t testing.TB, a, b spec) {
	t.Helper()
	dir, err := os.MkdirTemp("", "diff")
	must.OK(t, err)
	defer os.RemoveAll(dir)
	m := newMemory()
	sa, sb := m.state(t, a), m.state(t, b)
	a, b = a.visible(), b.visible()
	a.write(t, filepath.Join(dir, "a"))
	b.write(t, filepath.Join(dir, "b"))

	files, err := Files(context.Background(), m.src, sa, sb, Options{})
	must.OK(t, err)
	var ours strings.Builder
	for _, f := range files {
		switch f.Status {
		case Renamed:
			fmt.Fprintf(&ours, "R%03d\x00a/%s\x00b/%s\x00", f.Similarity, f.OldPath, f.Path)
		case Added:
			fmt.Fprintf(&ours, "A\x00b/%s\x00", f.Path)
		default:
			fmt.Fprintf(&ours, "%c\x00a/%s\x00", f.Status, f.Path)
		}
	}
	if want := git(t, dir, "", "diff", "--no-index", "--name-status", "-M", "-z", "a", "b"); ours.String() != want {
		t.Fatalf("name-status\n%q\nwant\n%q\nfrom %v\nto   %v", ours.String(), want, a, b)
	}

	forth, back := patch(t, m, sa, sb), patch(t, m, sb, sa)
	if forth == "" {
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("no diff between %v and %v", a, b)
		}
		return
	}
	applied := filepath.Join(dir, "a")
	git(t, applied, forth, "apply", "--whitespace=nowarn", "-")
	if got := load(t, applied); !reflect.DeepEqual(got, b) {
		t.Fatalf("the patch leads to\n%v\nwant\n%v\npatch:\n%s", got, b, forth)
	}
	git(t, applied, forth, "apply", "--whitespace=nowarn", "-R", "-")
	if got := load(t, applied); !reflect.DeepEqual(got, a) {
		t.Fatalf("the reversed patch leads to\n%v\nwant\n%v\npatch:\n%s", got, a, forth)
	}
	other := filepath.Join(dir, "b")
	git(t, other, back, "apply", "--whitespace=nowarn", "-")
	if got := load(t, other); !reflect.DeepEqual(got, a) {
		t.Fatalf("the patch back leads to\n%v\nwant\n%v\npatch:\n%s", got, a, back)
	}
}

var texts = []string{
	"", "one\n", "one", "one\ntwo\nthree\n", "one\r\ntwo\r\n", "\x00binary", strings.Repeat("\x00\x01\x02\xff", 500),
	strings.Repeat("a line of text\n", 30), strings.Repeat("x", 300), "caf\xe9\n",
	strings.Repeat("0 1 2 3 4 5 6 7 8 9\nabc\n", 20),
}

var fileNames = []string{"a", "b", "a.txt", "file with space", "new\nline", "tab\there", `quo"te`, `back\slash`,
	"caf\xc3\xa9", "\xff\xfe", "-dash", "\x7f", "d", "e"}

func drawPath(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(fileNames), 1, 3).Draw(t, "path"), "/")
}

// set adds a file, and removes other files that are in its way.
func (s spec) set(path string, n node) {
	for p := path; ; {
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			break
		}
		p = p[:i]
		delete(s, p)
	}
	maps.DeleteFunc(s, func(p string, _ node) bool { return strings.HasPrefix(p, path+"/") })
	s[path] = n
}

func drawNode(t *rapid.T) node {
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return link(rapid.SampledFrom([]string{"nowhere", "../up", "/abs", "caf\xe9", "with\nnewline"}).Draw(t, "target"))
	case 1:
		return node{mode: unix.S_IFDIR}
	case 2:
		return node{mode: unix.S_IFIFO}
	case 3, 4:
		return exe(rapid.SampledFrom(texts).Draw(t, "data"))
	}
	return file(rapid.SampledFrom(texts).Draw(t, "data"))
}

func drawEdited(t *rapid.T, n node) node {
	if n.mode != modeFile && n.mode != modeExec {
		return drawNode(t)
	}
	lines := strings.SplitAfter(n.data, "\n")
	at := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
	lines = slices.Insert(lines, at, fmt.Sprintf("inserted %d\n", rapid.IntRange(0, 9).Draw(t, "text")))
	if rapid.Bool().Draw(t, "also deletes") {
		at = rapid.IntRange(0, len(lines)-1).Draw(t, "deleted")
		lines = slices.Delete(lines, at, at+1)
	}
	n.data = strings.Join(lines, "")
	return n
}

func drawPair(t *rapid.T) (a, b spec) {
	a, b = spec{}, spec{}
	for range rapid.IntRange(0, 12).Draw(t, "files") {
		a.set(drawPath(t), drawNode(t))
	}
	maps.Copy(b, a)
	for range rapid.IntRange(0, 8).Draw(t, "changes") {
		paths := sorted(b)
		if len(paths) == 0 {
			break
		}
		path := rapid.SampledFrom(paths).Draw(t, "changed")
		n := b[path]
		switch rapid.IntRange(0, 5).Draw(t, "change") {
		case 0:
			delete(b, path)
		case 1:
			b.set(drawPath(t), drawNode(t))
		case 2:
			delete(b, path)
			b.set(drawPath(t), n)
		case 3:
			delete(b, path)
			b.set(drawPath(t), drawEdited(t, n))
		case 4:
			if n.mode == modeFile || n.mode == modeExec {
				n.mode ^= modeFile ^ modeExec
			}
			b[path] = n
		case 5:
			b[path] = drawEdited(t, n)
		}
	}
	return a, b
}

func TestRandomTreesAgreeWithGit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := drawPair(rt)
		compareWithGit(tb{t, rt}, a, b)
	})
}

// tb is a testing.TB whose failures rapid can shrink.
type tb struct {
	testing.TB
	r *rapid.T
}

func (t tb) Helper()                      {}
func (t tb) Fatal(args ...any)            { t.r.Fatal(args...) }
func (t tb) Fatalf(f string, args ...any) { t.r.Fatalf(f, args...) }

func TestCasesAgreeWithGit(t *testing.T) {
	long := strings.Repeat("a line of text that is the same everywhere\n", 20)
	for name, c := range map[string]struct{ a, b spec }{
		"nothing":               {spec{}, spec{}},
		"empty file":            {spec{}, spec{"e": file("")}},
		"emptied":               {spec{"e": file("x\n")}, spec{"e": file("")}},
		"no newline":            {spec{"f": file("a\nb")}, spec{"f": file("a\nb\n")}},
		"no newline twice":      {spec{"f": file("a\nb")}, spec{"f": file("a\nc")}},
		"mode only":             {spec{"f": file("x\n")}, spec{"f": exe("x\n")}},
		"mode and text":         {spec{"f": file("x\n")}, spec{"f": exe("y\n")}},
		"file to symlink":       {spec{"f": file("x\n")}, spec{"f": link("x")}},
		"symlink to file":       {spec{"f": link("x")}, spec{"f": exe("x\n")}},
		"symlink target":        {spec{"f": link("x")}, spec{"f": link("y")}},
		"file to directory":     {spec{"f": file("x\n")}, spec{"f/g": file("y\n")}},
		"directory to file":     {spec{"f/g/h": file("y\n")}, spec{"f": file("x\n")}},
		"directory to symlink":  {spec{"f/g": file("y\n")}, spec{"f": link("x")}},
		"fifo to file":          {spec{"f": node{mode: unix.S_IFIFO}}, spec{"f": file("x\n")}},
		"file to fifo":          {spec{"f": file("x\n")}, spec{"f": node{mode: unix.S_IFIFO}}},
		"renamed":               {spec{"f": file(long)}, spec{"g": file(long)}},
		"renamed and edited":    {spec{"f": file(long)}, spec{"d/g": file(long + "more\n")}},
		"renamed and made exec": {spec{"f": file(long)}, spec{"g": exe(long)}},
		"renamed symlink":       {spec{"f": link("there")}, spec{"g": link("there")}},
		"renamed empty":         {spec{"f": file("")}, spec{"g": file("")}},
		"two of the same":       {spec{"a": file(long), "b": file(long)}, spec{"c": file(long), "d/b": file(long)}},
		"directory moved": {
			spec{"d/a": file(long + "a\n"), "d/b": file(long + "b\n"), "d/c": file("c\n")},
			spec{"e/a": file(long + "a\n1\n"), "e/b": file(long + "b\n2\n"), "e/c": file("c\n")}},
		"more sources than maxCandidates, two of them alike": {
			spec{"a": file("1\n"), "b": file("2\n"), "c": file("3\n"), "d": file(long), "e": exe(long), "f": file("4\n")},
			spec{"g": file(long + "more\n")}},
		"swapped": {spec{"a": file(long), "b": file("x\n")}, spec{"a": file("x\n"), "b": file(long)}},
		"binary":  {spec{"b": file("\x00a")}, spec{"b": file("\x00b")}},
		"binary gone and come": {
			spec{"b": file(strings.Repeat("\x00\xff", 100))}, spec{"c": file(strings.Repeat("\x01\x00", 100))}},
		"text to binary": {spec{"b": file("text\n")}, spec{"b": file("te\x00xt\n")}},
		"order":          {spec{}, spec{"a": file("1\n"), "a.b": file("2\n"), "b/c": file("3\n"), "b.c": file("4\n")}},
		"git directory":  {spec{}, spec{"x": file("1\n")}},
		"carriage returns": {
			spec{"f": file("a\r\nb\r\n")}, spec{"f": file("a\r\nc\r\n")}},
	} {
		t.Run(name, func(t *testing.T) { compareWithGit(t, c.a, c.b) })
	}
}

// inRepository writes both trees as git trees, without commits, and returns their ids.
func inRepository(t testing.TB, dir string, a, b spec) (treeA, treeB string) {
	t.Helper()
	git(t, dir, "", "init", "-q", "--bare", "r.git")
	ids := make([]string, 2)
	for i, s := range []spec{a, b} {
		work := filepath.Join(dir, fmt.Sprint("w", i))
		s.write(t, work)
		git(t, work, "", "--git-dir=../r.git", "--work-tree=.", "add", "--all", "--force", ".")
		ids[i] = strings.TrimSpace(git(t, work, "", "--git-dir=../r.git", "--work-tree=.", "write-tree"))
	}
	return ids[0], ids[1]
}

func TestFormatsAgreeWithGit(t *testing.T) {
	big := strings.Repeat("line\n", 400)
	for name, c := range map[string]struct{ a, b spec }{
		"small": {spec{"f": file("a\nb\n"), "g": exe("x\n")}, spec{"f": file("a\nc\nd\n"), "g": file("x\n")}},
		"scaled": {
			spec{"f": file(""), "g": file(big), "h": file("x\n" + big)},
			spec{"f": file(big), "g": file("one\n"), "h": file(big + "y\n")}},
		"long name": {
			spec{},
			spec{strings.Repeat("deep/", 20) + "name": file(big), strings.Repeat("n", 120): file("x\n")}},
		"binary":   {spec{"b": file("\x00"), "t": file("1\n")}, spec{"b": file("\x00" + big), "t": file("2\n")}},
		"renames":  {spec{"d/x/f": file(big), "g": file(big + "g")}, spec{"d/y/f": file(big), "h": file(big + "g")}},
		"subdir":   {spec{"d/f": file(big)}, spec{"d/e/f": file(big)}},
		"typed":    {spec{"f": file("a\nb\n")}, spec{"f": link("a")}},
		"quoted":   {spec{"caf\xc3\xa9": file("1\n")}, spec{"caf\xc3\xa9": file("2\n"), "t\tb": file("")}},
		"deletion": {spec{"f": file("a\n")}, spec{}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, b := inRepository(t, dir, c.a, c.b)
			m := newMemory()
			sa, sb := m.state(t, c.a), m.state(t, c.b)
			var out bytes.Buffer
			must.OK(t, Stat(context.Background(), &out, m.src, sa, sb, Options{}))
			// The layout differs from git's for renames, and for names and numbers that do not fit.
			own := slices.Contains([]string{"scaled", "long name", "renames", "subdir"}, name)
			if want := git(t, dir, "", "--git-dir=r.git", "diff", "--stat", a, b); out.String() != want && !own {
				t.Errorf("got\n%s\nwant\n%s", out.String(), want)
			}
			for line := range strings.Lines(out.String()) {
				if len(line) > defaultWidth+1 {
					t.Errorf("a long line: %s", line)
				}
			}
			out.Reset()
			must.OK(t, NameStatus(context.Background(), &out, m.src, sa, sb, Options{}))
			if want := git(t, dir, "", "--git-dir=r.git", "diff", "--name-status", a, b); out.String() != want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), want)
			}
			out.Reset()
			err := Write(context.Background(), &out, m.src, sa, sb, Options{})
			must.OK(t, err)
			if want := git(t, dir, "", "--git-dir=r.git", "diff", "--abbrev=7", a, b); out.String() != want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), want)
			}
		})
	}
}

func TestPathsAndGitDirectories(t *testing.T) {
	m := newMemory()
	a := m.state(t, spec{"x/f": file("1\n"), "y/f": file("1\n"), ".git/config": file("1\n"), "s/.GIT/x": file("1\n")})
	b := m.state(t, spec{"x/f": file("2\n"), "y/f": file("2\n"), ".git/config": file("2\n"), "s/.GIT/x": file("2\n")})
	for want, o := range map[string]Options{
		"M\t.git/config\nM\ts/.GIT/x\nM\tx/f\nM\ty/f\n": {},
		"M\ty/f\n": {Paths: []string{"y"}},
	} {
		var out bytes.Buffer
		must.OK(t, NameStatus(context.Background(), &out, m.src, a, b, o))
		if out.String() != want {
			t.Errorf("%+v: got %q, want %q", o, out.String(), want)
		}
	}
	var out bytes.Buffer
	must.OK(t, Write(context.Background(), &out, m.src, a, b, Options{}))
	if strings.Count(out.String(), "diff --git") != 2 || strings.Contains(out.String(), ".git/") {
		t.Errorf("got\n%s", out.String())
	}
}
