package gitbridge

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// tb is a testing.TB whose failures rapid can shrink.
type tb struct {
	testing.TB
	r *rapid.T
}

func (t tb) Helper()                      {}
func (t tb) Fatal(args ...any)            { t.r.Fatal(args...) }
func (t tb) Fatalf(f string, args ...any) { t.r.Fatalf(f, args...) }
func (t tb) Errorf(f string, args ...any) { t.r.Errorf(f, args...) }

// fewer makes rapid draw fewer than its 100 cases, because each case needs many git processes. The flag of rapid can
// set a higher number.
func fewer(t *testing.T, n int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if f.Value.String() != f.DefValue {
		return
	}
	must.OK(t, f.Value.Set(strconv.Itoa(n)))
	t.Cleanup(func() { f.Value.Set(f.DefValue) })
}

// set adds a file, and removes other files that are in its way.
func set(s trees.Spec, p string, n trees.Node) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		delete(s, dir)
	}
	maps.DeleteFunc(s, func(q string, _ trees.Node) bool { return strings.HasPrefix(q, p+"/") })
	s[p] = n
}

func drawNode(t *rapid.T, p string) trees.Node {
	if filepath.Base(p) == ".gitignore" {
		return trees.File(rapid.SampledFrom([]string{"*.o\n", "b/\n", "!*.o\n", "/a\n", "*\n!*/\n!*.c\n"}).Draw(t, "rules"))
	}
	if filepath.Base(p) == ".gitattributes" {
		return trees.File(rapid.SampledFrom([]string{"* text=auto\n", "*.c text\n", "*.o -text\n", "*.c ident\n"}).Draw(t, "attributes"))
	}
	data := rapid.SampledFrom([]string{"", "1\n", "2\r\n", "$Id: x $\r\n", "\x00\r\n", strings.Repeat("line\r\n", 50)})
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return trees.Link(rapid.SampledFrom([]string{"a", "b/c"}).Draw(t, "target"))
	case 1:
		return trees.Dir()
	case 2:
		return trees.Fifo()
	case 3:
		return trees.Exe(data.Draw(t, "data"))
	}
	return trees.File(data.Draw(t, "data"))
}

func drawPath(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a.c", "x.o", "b.c", ".gitignore", ".gitattributes", ".GIT", "\xff"}), 1, 3).Draw(t, "path")
	for i, p := range parts[:len(parts)-1] {
		if strings.HasPrefix(p, ".git") {
			parts[i] = "d"
		}
	}
	return strings.Join(parts, "/")
}

// TestRandomChainsOfExports: exports that each start from the previous export have the trees and reports of exports
// without a base. These trees equal git's.
func TestRandomChainsOfExports(t *testing.T) {
	fewer(t, 10)
	isolate(t)
	repo := bareRepo(t)
	cacheDir := t.TempDir()
	incremental := 0
	rapid.Check(t, func(rt *rapid.T) {
		t := tb{t, rt}
		m := trees.NewMemory()
		gitignore := rapid.Bool().Draw(rt, "gitignore")
		s := trees.Spec{}
		for range rapid.IntRange(0, 10).Draw(rt, "files") {
			p := drawPath(rt)
			set(s, p, drawNode(rt, p))
		}
		st := m.Seal(t, m.State(t, s))
		name := fmt.Sprint("s", time.Now().UnixNano())
		res := export(t, m, st, repo, func(o *ExportOptions) {
			o.Info.Name, o.Gitignore, o.CacheDir = name, gitignore, cacheDir
		})
		for step := range rapid.IntRange(1, 2).Draw(rt, "steps") {
			next := maps.Clone(s)
			for range rapid.IntRange(1, 4).Draw(rt, "changes") {
				if paths := trees.Sorted(next); len(paths) > 0 && rapid.Bool().Draw(rt, "delete") {
					delete(next, rapid.SampledFrom(paths).Draw(rt, "deleted"))
				} else {
					p := drawPath(rt)
					set(next, p, drawNode(rt, p))
				}
			}
			after := m.Seal(t, m.State(t, next))
			got := export(t, m, after, repo, func(o *ExportOptions) {
				o.Info.Name, o.Gitignore, o.CacheDir = fmt.Sprint(name, "-", step), gitignore, cacheDir
				o.Bases = []Base{base(st, res)}
			})
			want := export(t, m, after, repo, func(o *ExportOptions) { o.Gitignore = gitignore })
			if got.Tree != want.Tree || got.Files != want.Files {
				t.Fatalf("from %v\nto %v\ngot %d files\n%s\nwant %d\n%s", s, next, got.Files, git(t, repo, "ls-tree", "-r", got.Tree), want.Files, git(t, repo, "ls-tree", "-r", want.Tree))
			}
			if !reflect.DeepEqual(got.Skipped, want.Skipped) || !reflect.DeepEqual(got.Reduced, want.Reduced) {
				t.Fatalf("from %v\nto %v\nreports %v %v\nwant %v %v", s, next, got.Skipped, got.Reduced, want.Skipped, want.Reduced)
			}
			if got.Incremental {
				incremental++
			}
			s, st, res = next, after, got
		}
		work, err := os.MkdirTemp("", "work")
		must.OK(t, err)
		defer os.RemoveAll(work)
		maps.DeleteFunc(s, func(p string, _ trees.Node) bool { return strings.Contains(p, ".GIT") })
		s.Write(t, work)
		if want := addAll(t, repo, work, gitignore); res.Tree != want {
			t.Fatalf("%v\ngot\n%s\nwant\n%s", s, git(t, repo, "ls-tree", "-r", res.Tree), git(t, repo, "ls-tree", "-r", want))
		}
	})
	if incremental == 0 {
		t.Error("no export was incremental")
	}
	t.Logf("%d incremental exports", incremental)
}

// TestRandomRules: an export that starts from another export has the tree of an export without a base, which is the tree
// that git makes. Rules also apply to files that change long after the rules.
func TestRandomRules(t *testing.T) {
	histories := 8
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		histories = 200
	}
	fewer(t, histories)
	isolate(t)
	repo, cacheDir := bareRepo(t), t.TempDir()
	git(t, repo, "config", "filter.up.clean", "tr a-z A-Z")
	dirs := []string{"", "a/", "a/b/", "c/"}
	rules := map[string][]string{
		".gitignore":     {".env\n", "*.o\nb/\n", "!*.o\n.env\n", "/x.txt\n", "*\n!*/\n!*.txt\n"},
		".gitattributes": {"*.txt text\n", "* text=auto\n", "*.o -text\n*.txt filter=up\n", "*.txt ident\n.env filter=up\n"},
	}
	incremental := 0
	rapid.Check(t, func(rt *rapid.T) {
		t := tb{t, rt}
		work, err := os.MkdirTemp("", "work")
		must.OK(t, err)
		defer os.RemoveAll(work)
		m, s := trees.NewMemory(), trees.Spec{}
		change := func(names ...string) {
			name := rapid.SampledFrom(names).Draw(rt, "name")
			p := rapid.SampledFrom(dirs).Draw(rt, "dir") + name
			texts := rules[name]
			if texts == nil {
				texts = []string{"one\n", "two\r\n", "$Id: x $\r\nthree\n"}
			}
			if rapid.IntRange(0, 5).Draw(rt, "remove") == 0 {
				delete(s, p)
			} else {
				set(s, p, trees.File(rapid.SampledFrom(texts).Draw(rt, "text")))
			}
		}
		for range 4 {
			change(".gitignore", ".gitattributes")
		}
		name, gitignore := fmt.Sprint("r", time.Now().UnixNano()), rapid.Bool().Draw(rt, "gitignore")
		var bases []Base
		for step := range 5 {
			if rapid.IntRange(0, 4).Draw(rt, "rules") == 0 {
				change(".gitignore", ".gitattributes")
			}
			for range rapid.IntRange(1, 4).Draw(rt, "changes") {
				change(".env", "x.txt", "y.txt", "z.o")
			}
			st := m.Seal(t, m.State(t, s))
			whole := func(o *ExportOptions) {
				o.Info.Name, o.Gitignore, o.TrustConfig = fmt.Sprint(name, "-", step), gitignore, true
			}
			got := export(t, m, st, repo, func(o *ExportOptions) {
				whole(o)
				o.CacheDir, o.Bases = cacheDir, bases
			})
			all := export(t, m, st, repo, whole)
			must.OK(t, os.RemoveAll(work))
			s.Write(t, work)
			must.OK(t, os.MkdirAll(work, 0o755))
			want := addAll(t, repo, work, gitignore)
			if got.Tree != want || all.Tree != want || got.Files != all.Files {
				t.Fatalf("step %d, ignoring %v, %v:\n%s\nall of it:\n%s\ngit:\n%s", step, gitignore, s,
					git(t, repo, "ls-tree", "-r", got.Tree), git(t, repo, "ls-tree", "-r", all.Tree), git(t, repo, "ls-tree", "-r", want))
			}
			if got.Incremental {
				incremental++
			}
			bases = []Base{base(st, got)}
		}
	})
	if incremental == 0 {
		t.Error("no export was incremental")
	}
}

func TestNestedRepositoriesThatMove(t *testing.T) {
	isolate(t)
	work := filepath.Join(t.TempDir(), "work")
	nestedRepos(t, work)
	repo, cacheDir := bareRepo(t), t.TempDir()
	m := trees.NewMemory()
	st := m.Seal(t, m.State(t, loadSpec(t, work)))
	res := export(t, m, st, repo, func(o *ExportOptions) { o.CacheDir = cacheDir })
	for i, step := range []struct {
		what string
		do   func()
	}{
		{"commit in a clone", func() { git(t, filepath.Join(work, "clone"), "commit", "-q", "--allow-empty", "-m", "two") }},
		{"commit in a submodule", func() { git(t, filepath.Join(work, "module"), "commit", "-q", "--allow-empty", "-m", "two") }},
		{"files in a nested repository", func() { must.OK(t, os.WriteFile(filepath.Join(work, "clone/new"), nil, 0o644)) }},
		{"a repository that goes", func() { must.OK(t, os.RemoveAll(filepath.Join(work, "detached"))) }},
		{"a repository that becomes a directory", func() { must.OK(t, os.RemoveAll(filepath.Join(work, "packed/.git"))) }},
		{"a directory with what is left out", func() {
			must.OK(t, os.MkdirAll(filepath.Join(work, "odd/deep/empty"), 0o755))
			must.OK(t, unix.Mkfifo(filepath.Join(work, "odd/deep/fifo"), 0o644))
			must.OK(t, os.WriteFile(filepath.Join(work, "odd/deep/private"), nil, 0o600))
		}},
		{"that becomes a repository", func() { must.OK(t, os.CopyFS(filepath.Join(work, "odd"), os.DirFS(filepath.Join(work, "clone")))) }},
		{"and a directory again", func() { must.OK(t, os.RemoveAll(filepath.Join(work, "odd/.git"))) }},
		{"a repository that comes", func() { git(t, work, "clone", "-q", filepath.Join(work, "bare"), "come") }},
		{"a directory that becomes one", func() {
			must.OK(t, os.WriteFile(filepath.Join(work, "almost/.git"), []byte("gitdir: ../bare\n"), 0o644))
		}},
	} {
		if i == 9 {
			must.OK(t, os.RemoveAll(filepath.Join(work, "almost/.git")))
		}
		step.do()
		after := m.Seal(t, m.State(t, loadSpec(t, work)))
		got := export(t, m, after, repo, func(o *ExportOptions) {
			o.CacheDir, o.Bases = cacheDir, []Base{base(st, res)}
		})
		if want := addAll(t, repo, work, false); got.Tree != want {
			t.Fatalf("%s:\n%s\nwant\n%s", step.what, git(t, repo, "ls-tree", "-r", got.Tree), git(t, repo, "ls-tree", "-r", want))
		}
		if !got.Incremental {
			t.Errorf("%s: everything was sent", step.what)
		}
		whole := export(t, m, after, repo, nil)
		if got.Files != whole.Files || !reflect.DeepEqual(got.Skipped, whole.Skipped) || !reflect.DeepEqual(got.Reduced, whole.Reduced) {
			t.Errorf("%s: %d files, reports %v %v\nwant %d, %v %v", step.what, got.Files, got.Skipped, got.Reduced, whole.Files, whole.Skipped, whole.Reduced)
		}
		st, res = after, got
	}
}

func TestRecordsSurviveWhatHappensToThem(t *testing.T) {
	isolate(t)
	m := trees.NewMemory()
	s := trees.Spec{"empty": trees.Dir()}
	for i := range 50 {
		s[fmt.Sprintf("d%d/f%d", i%7, i)] = trees.File(fmt.Sprint("content ", i))
	}
	before := m.Seal(t, m.State(t, s))
	s["new"] = trees.File("new\n")
	after := m.Seal(t, m.State(t, s))
	repo, dir := bareRepo(t), filepath.Join(t.TempDir(), "records")
	keep := records{dir}
	first := export(t, m, before, repo, func(o *ExportOptions) { o.CacheDir = dir })
	do := func(what string, incremental bool) {
		t.Helper()
		res := export(t, m, after, repo, func(o *ExportOptions) { o.CacheDir, o.Bases = dir, []Base{base(before, first)} })
		written := 51
		if incremental {
			written = 1
		}
		if res.Incremental != incremental || res.Written != written || len(res.Skipped) != 1 {
			t.Errorf("%s: incremental %v, %d contents written, skipped %v", what, res.Incremental, res.Written, res.Skipped)
		}
		git(t, repo, "fsck", "--strict")
	}
	do("whole", true)
	record := filepath.Join(dir, first.Commit)
	data, err := os.ReadFile(record)
	must.OK(t, err)
	must.OK(t, os.WriteFile(record, data[:len(data)/2], 0o600))
	do("torn", false)
	must.OK(t, os.WriteFile(record, data, 0o600))
	git(t, repo, "update-ref", "-d", "refs/sandbox/snapshots/v1")
	git(t, repo, "gc", "--quiet", "--prune=now")
	do("after gc threw everything away", false)
	outside := t.TempDir()
	must.OK(t, os.RemoveAll(dir))
	must.OK(t, os.Symlink(outside, dir))
	do("a link out of the store", false)
	if names, _ := filepath.Glob(filepath.Join(outside, "*")); names != nil {
		t.Errorf("written outside: %v", names)
	}
	must.OK(t, os.Remove(dir))
	for i := range maxRecords + 10 {
		must.OK(t, keep.save(fmt.Sprint(i), exportRecord{}))
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) > maxRecords {
		t.Errorf("%d records are kept", len(names))
	}
}

// clearBelow removes a path and all paths below it.
func clearBelow(s trees.Spec, p string) {
	maps.DeleteFunc(s, func(q string, _ trees.Node) bool { return q == p || strings.HasPrefix(q, p+"/") })
}

// TestRandomNestedRepositories: directories become repositories and ordinary directories again, with a git directory
// inside or elsewhere. An export that starts from another export has the tree of an export without a base.
func TestRandomNestedRepositories(t *testing.T) {
	fewer(t, 10)
	isolate(t)
	repo, cacheDir := bareRepo(t), t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		t := tb{t, rt}
		m := trees.NewMemory()
		const module = ".git/modules/m"
		s := trees.Spec{module + "/HEAD": trees.File("ref: refs/heads/main\n"), module + "/objects": trees.Dir(), module + "/refs": trees.Dir()}
		change := func() {
			d := rapid.SampledFrom([]string{"n", "n/k", "o", "p/q"}).Draw(rt, "dir")
			id := strings.Repeat(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "id"), 40) + "\n"
			switch rapid.IntRange(0, 10).Draw(rt, "change") {
			case 0:
				set(s, d+"/.git/HEAD", trees.File(id))
				set(s, d+"/.git/objects", trees.Dir())
				set(s, d+"/.git/refs", trees.Dir())
			case 1:
				clearBelow(s, d+"/.git")
			case 2:
				set(s, d+"/.git", trees.File("gitdir: "+strings.Repeat("../", strings.Count(d, "/")+1)+module+"\n"))
			case 3:
				set(s, d+"/.git", trees.File("gitdir: /outside\n"))
			case 4:
				set(s, module+"/refs/heads/main", trees.File(id))
			case 5:
				clearBelow(s, module+"/refs")
			case 6:
				clearBelow(s, d)
			case 7:
				set(s, d, trees.File("plain"))
			case 8:
				set(s, d+"/deep/fifo", trees.Fifo())
				set(s, d+"/deep/empty", trees.Dir())
			default:
				nodes := []trees.Node{trees.File("1"), trees.File("2"), trees.Exe("1"), trees.Dir(), trees.Link("x"), {Mode: unix.S_IFREG | 0o600, Data: "p"}}
				set(s, d+"/"+rapid.SampledFrom([]string{"a", "b/c", "b/d"}).Draw(rt, "name"), rapid.SampledFrom(nodes).Draw(rt, "node"))
			}
		}
		var bases []Base
		for step := range 4 {
			for range rapid.IntRange(1, 6).Draw(rt, "changes") {
				change()
			}
			st := m.Seal(t, m.State(t, s))
			got := export(t, m, st, repo, func(o *ExportOptions) { o.CacheDir, o.Bases = cacheDir, bases })
			want := export(t, m, st, repo, nil)
			if got.Tree != want.Tree || got.Files != want.Files || got.Incremental != (step > 0) ||
				!reflect.DeepEqual(got.Skipped, want.Skipped) || !reflect.DeepEqual(got.Reduced, want.Reduced) {
				t.Fatalf("%v\n%+v\n%s\nwant\n%+v\n%s", s, got, git(t, repo, "ls-tree", "-r", got.Tree), want, git(t, repo, "ls-tree", "-r", want.Tree))
			}
			bases = []Base{base(st, got)}
		}
	})
}
