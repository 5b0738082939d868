package gitbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/trees"
)

func export(t testing.TB, m *trees.Memory, st *tree.State, repo string, change func(*ExportOptions)) *Result {
	t.Helper()
	o := ExportOptions{Source: m.Src, State: st, Info: testInfo, Repo: repo}
	if change != nil {
		change(&o)
	}
	res, err := Export(context.Background(), o)
	check(t, err)
	return res
}

// sameAsGit exports a tree with and without ignore rules, and compares both exports with the trees that git makes of
// the files.
func sameAsGit(t testing.TB, repo string, s trees.Spec) {
	t.Helper()
	m := trees.NewMemory()
	st := m.State(t, s)
	work, err := os.MkdirTemp("", "work")
	check(t, err)
	defer os.RemoveAll(work)
	s.Write(t, work)
	for _, gitignore := range []bool{false, true} {
		res := export(t, m, st, repo, func(o *ExportOptions) { o.Gitignore = gitignore })
		want := addAll(t, repo, work, gitignore)
		if res.Tree != want {
			t.Fatalf("gitignore=%v: tree %s\n%s\nwant %s\n%s", gitignore, res.Tree, git(t, repo, "ls-tree", "-r", res.Tree), want, git(t, repo, "ls-tree", "-r", want))
		}
		if want := strings.Count(git(t, repo, "ls-tree", "-r", "-z", res.Tree), "\x00"); res.Files != want {
			t.Errorf("%d files counted, want %d", res.Files, want)
		}
	}
}

func TestExportTreesAreGits(t *testing.T) {
	isolate(t)
	long := strings.Repeat(strings.Repeat("d", 99)+"/", 39) + "f"
	for name, s := range map[string]trees.Spec{
		"empty":                               {},
		"plain":                               {"a": trees.File("1\n"), "b/c": trees.Exe("2\n"), "b/l": trees.Link("../a"), "e": trees.File("")},
		"modes":                               {"a": {Mode: unix.S_IFREG | 0o600, Data: "x"}, "b": {Mode: unix.S_IFREG | 0o711, Data: "x"}, "c": {Mode: unix.S_IFREG | 0o655, Data: "x"}, "d": {Mode: unix.S_IFREG | 0o500, Data: "x"}},
		"nothing":                             {"d/e": trees.Dir(), "p": trees.Fifo()},
		"empty directories and special files": {"d": trees.Dir(), "e/f": trees.Dir(), "e/g": trees.File("1"), "p": trees.Fifo(), "q/p": trees.Fifo()},
		"order":                               {"a": trees.Dir(), "a.b": trees.File("1"), "a/c": trees.File("2"), "a0": trees.File("3"), "a-": trees.File("4")},
		"odd names":                           {"new\nline": trees.File("1"), "tab\t": trees.File("2"), "\xff\xfe": trees.File("3"), "-dash": trees.File("4"), `"q"`: trees.File("5"), `b\s`: trees.File("6"), " sp ": trees.File("7"), ":(glob)x": trees.File("8"), ":!x": trees.File("9"), "*": trees.File("a"), "a\x01b/\x7f": trees.File("b"), "cr\r": trees.File("c")},
		"deep":                                {long: trees.File("deep")},
		"big":                                 {"big": trees.File(strings.Repeat("0123456789abcdef", 200_000)), "zero": trees.File(strings.Repeat("\x00", 3<<20))},
		"hard links":                          {"a": trees.File("same"), "b": {Hard: "a"}},
		"like git":                            {".gitmodules": trees.File(""), "git": trees.File("1"), ".gitx": trees.File("2"), "a/.gitignores": trees.File("3"), "git~2": trees.File("4"), ".gi": trees.Link("t"), "gi7eba~": trees.Link("u")},
		"ignored": {".gitignore": trees.File("*.o\n!keep.o\n/build/\n\\#x\nfoo/**/bar\n  \ntrail \\ \n"), "a.o": trees.File("1"), "keep.o": trees.File("2"),
			"build/x": trees.File("3"), "d/build/x": trees.File("4"), "#x": trees.File("5"), "foo/a/b/bar": trees.File("6"), "foo/bar/x": trees.File("7"), "build.c": trees.File("8")},
		"ignored below":         {".gitignore": trees.File("/*\n!/src/\n"), "src/.gitignore": trees.File("*\n!*.c\n!*/\n"), "src/a.c": trees.File("1"), "src/a.h": trees.File("2"), "src/d/b.c": trees.File("3"), "src/d/b.h": trees.File("4"), "x": trees.File("5")},
		"only directories":      {".gitignore": trees.File("x/\n"), "x": trees.File("1"), "d/x/y": trees.File("2"), "e/x": trees.Link("y")},
		"ignore that is a link": {".gitignore": trees.Link("rules"), "rules": trees.File("a\n"), "a": trees.File("1")},
		"ignored names":         {".gitignore": trees.File(":(glob)x\nnew?line\n[a-c]*\n"), ":(glob)x": trees.File("1"), "new\nline": trees.File("2"), "abc": trees.File("3"), "-": trees.File("4")},
		"everything ignored":    {".gitignore": trees.File("*\n"), "a": trees.File("1"), "b/c": trees.File("2")},
		"line ends": {".gitattributes": trees.File("* text=auto\n*.bin -text\n*.sh text eol=lf\n*.crlf text eol=crlf\n"),
			"a.txt": trees.File("a\r\nb\r\n"), "b.txt": trees.File("a\nb\n"), "c.bin": trees.File("a\r\n"), "d.sh": trees.Exe("#!\r\n"), "e.crlf": trees.File("x\r\ny\n"),
			"f": trees.File("\x00\r\n"), "g": trees.File("a\rb\r\n"), "l": trees.Link("a\r\n")},
		"attributes below": {"d/.gitattributes": trees.File("*.txt text\nsub/*.x text\n"), "a.txt": trees.File("1\r\n"), "d/a.txt": trees.File("1\r\n"), "d/sub/a.x": trees.File("1\r\n"), "d/sub/.gitattributes": trees.File("*.x -text\n")},
		"ident":            {".gitattributes": trees.File("*.c ident\n"), "a.c": trees.File("/* $Id: abc $ */\n"), "b.c": trees.File("no\n"), "a.h": trees.File("$Id: abc $\n")},
		"encoding":         {".gitattributes": trees.File("*.u16 working-tree-encoding=UTF-16LE\n"), "a.u16": trees.File("h\x00i\x00\n\x00"), "n\new\"l.u16": trees.File("h\x00\n\x00")},
		"crlf attribute":   {".gitattributes": trees.File("*.a crlf\n*.b -crlf\n*.c crlf=input\n[attr]mac text\n*.m mac\n"), "1.a": trees.File("x\r\n"), "1.b": trees.File("x\r\n"), "1.c": trees.File("x\r\n"), "1.m": trees.File("x\r\n")},
		"big line ends":    {".gitattributes": trees.File("* text=auto\n"), "big": trees.File(strings.Repeat("0123456789abcde\n", 200_000) + "\r\n"), "lf": trees.File(strings.Repeat("0123456789abcde\n", 200_000))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameAsGit(t, bareRepo(t), s)
		})
	}
}

func TestExportFollowsTheRepositorysSettings(t *testing.T) {
	isolate(t)
	s := trees.Spec{"a.txt": trees.File("x\r\n"), "b": trees.Exe("y\n"), "secret": trees.File("z"), "own": trees.File("w"), "c.up": trees.File("lower\n"), ".gitattributes": trees.File("*.up filter=up\n")}
	for name, setting := range map[string][2]string{
		"autocrlf":       {"core.autocrlf", "true"},
		"autocrlf input": {"core.autocrlf", "input"},
		"filemode":       {"core.fileMode", "false"},
		"user's filter":  {"--global filter.up.clean", "tr a-z A-Z"},
	} {
		t.Run(name, func(t *testing.T) {
			repo := bareRepo(t)
			git(t, repo, append(append([]string{"config"}, strings.Fields(setting[0])...), setting[1])...)
			check(t, os.WriteFile(filepath.Join(repo, "info/exclude"), []byte("secret\n"), 0o644))
			check(t, os.WriteFile(filepath.Join(repo, "info/attributes"), []byte("b text\n"), 0o644))
			check(t, os.MkdirAll(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "git"), 0o755))
			check(t, os.WriteFile(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "git/ignore"), []byte("own\n"), 0o644))
			sameAsGit(t, repo, s)
		})
	}
	t.Run("sha256", func(t *testing.T) { sameAsGit(t, bareRepo(t, "--object-format=sha256"), s) })
	t.Run("excludesFile", func(t *testing.T) {
		repo := bareRepo(t)
		rules := filepath.Join(t.TempDir(), "rules")
		check(t, os.WriteFile(rules, []byte("*.txt\n"), 0o644))
		git(t, repo, "config", "core.excludesFile", rules)
		sameAsGit(t, repo, s)
	})
}

func TestExportReportsWhatGitCannotHold(t *testing.T) {
	isolate(t)
	repo := bareRepo(t)
	m := trees.NewMemory()
	st := m.State(t, trees.Spec{
		"empty": trees.Dir(), "d/empty": trees.Dir(), "d/f": trees.File("1"), "p": trees.Fifo(), "s": {Mode: unix.S_IFSOCK | 0o755},
		"c": {Mode: unix.S_IFCHR | 0o644}, ".GIT/x": trees.File("2"), "g/git~1": trees.File("3"), ".gitmodules": trees.Link("x"), `a\.git`: trees.File("4"),
		"x": {Mode: unix.S_IFREG | 0o644, Data: "5", Xattrs: []tree.Xattr{{Name: "user.a", Value: []byte("b")}}},
		"h": trees.File("6"), "i": {Hard: "h"}, "private": {Mode: unix.S_IFREG | 0o600}, "suid": {Mode: unix.S_IFREG | 0o4755},
		"sub/.git": trees.File("no repository"), "sub/f": trees.File("7"), ".git/HEAD": trees.File("ref: refs/heads/main"),
	})
	res := export(t, m, st, repo, nil)
	got := map[string]bool{}
	for _, l := range res.Skipped {
		got[l.Path] = true
	}
	want := map[string]bool{"empty": true, "d/empty": true, "p": true, "s": true, "c": true, ".GIT": true, "g/git~1": true,
		".gitmodules": true, `a\.git`: true, "sub/.git": true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("skipped %v, want %v", got, want)
	}
	reduced := fmt.Sprint(res.Reduced)
	if want := "[{h hard link} {i hard link} {private permissions 0600} {suid mode 4755} {x attribute user.a}]"; reduced != want {
		t.Errorf("reduced %v, want %v", reduced, want)
	}
	if res.Files != 7 {
		t.Errorf("%d files, want 7", res.Files)
	}
	trailers := git(t, repo, "log", "-1", "--format=%(trailers:only)", res.Commit)
	if !strings.Contains(trailers, "Snapshot: v1\n") || !strings.Contains(trailers, "Snapshot-Skipped: 10\n") || !strings.Contains(trailers, "Snapshot-Reduced: 5\n") {
		t.Errorf("trailers:\n%s", trailers)
	}
}

// TestRefusedNamesAreGits compares each name with the answer of git.
func TestRefusedNamesAreGits(t *testing.T) {
	isolate(t)
	repo := bareRepo(t)
	git(t, repo, "config", "core.protectHFS", "true")
	blob := strings.TrimSpace(git(t, repo, "hash-object", "-w", "--stdin"))
	rules := nameRules{ntfs: true, hfs: true}
	for _, name := range []string{".git", ".GIT", ".gIt", ".git ", ".git.", ".git . .", ".git:x", ".git::$INDEX_ALLOCATION", "git~1", "GIT~1", "GIT~1.", "git~2",
		"git~1x", ".gitx", "x.git", `x\.git`, `x\.git\y`, `\git~1`, `.git\x`, ".g\u200cit", ".git\u200d", ".gi\u200et", "\ufeff.git", ".git\xff", ".gitmodules", ".GITMODULES",
		".gitmodules ", ".gitmodules:x", "gitmod~1", "GITMOD~4", "gitmod~5", "gi7eba~1", "GI7EBA~9", "gi7eb~10", "gi7e~123", "gi7eba~0", "~1000000", "~1", "~9999999", "~10000000", ".gitmodules.x",
		".git\u200cmodules", ".gitmoduleſ", `x\.gitmodules`, "gitmod~1 .", "gi7eba~", "gi7ebax", ".gitmodule", "git~", "git~10", ".git~1", "gi7d29~1", ".gitattributes", "...", ". ", ".."} {
		for _, symlink := range []bool{false, true} {
			mode := "100644"
			if symlink {
				mode = "120000"
			}
			want := false
			if _, err := runGit(context.Background(), repo, []string{"GIT_INDEX_FILE=" + filepath.Join(repo, "i")}, nil,
				"update-index", "--add", "--cacheinfo", mode+","+blob+",d/"+name); err != nil {
				want = true
			}
			if name == ".." {
				continue // no file has this name
			}
			if got := rules.refuses(name, symlink); got != want {
				t.Errorf("%q symlink=%v: refused %v, git says %v", name, symlink, got, want)
			}
		}
	}
}

// contents reads all the files of a directory.
func contents(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	check(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(root, p)
		out[rel] = string(data)
		return err
	}))
	return out
}

func TestExportTouchesOnlyItsRef(t *testing.T) {
	isolate(t)
	repo := t.TempDir()
	git(t, repo, "init", "-q")
	check(t, os.WriteFile(filepath.Join(repo, "f"), []byte("committed\n"), 0o644))
	git(t, repo, "add", ".")
	git(t, repo, "commit", "-qm", "c")
	git(t, repo, "tag", "t")
	check(t, os.WriteFile(filepath.Join(repo, "f"), []byte("stashed\n"), 0o644))
	git(t, repo, "stash")
	check(t, os.WriteFile(filepath.Join(repo, "f"), []byte("staged\n"), 0o644))
	git(t, repo, "add", ".")
	check(t, os.WriteFile(filepath.Join(repo, "f"), []byte("changed\n"), 0o644))
	hook := "#!/bin/sh\ntouch " + filepath.Join(repo, "hooked") + "\nexit 1\n"
	check(t, os.WriteFile(filepath.Join(repo, ".git/hooks/reference-transaction"), []byte(hook), 0o755))
	shown := func() string {
		return git(t, repo, "log", "--oneline") + git(t, repo, "branch", "-a") + git(t, repo, "tag") + git(t, repo, "status", "--porcelain")
	}
	seen, before := shown(), contents(t, repo)

	m := trees.NewMemory()
	res := export(t, m, m.State(t, trees.Spec{"g": trees.File("1"), "d/h": trees.File("2")}), repo, nil)
	after := contents(t, repo)
	const ref = ".git/refs/sandbox/snapshots/v1"
	if strings.TrimSpace(after[ref]) != res.Commit {
		t.Errorf("the ref is %q, want %s", after[ref], res.Commit)
	}
	for p, data := range after {
		if old, ok := before[p]; p != ref && !strings.HasPrefix(p, ".git/objects/") && (!ok || old != data) {
			t.Errorf("%s changed", p)
		}
	}
	for p := range before {
		if _, ok := after[p]; !ok {
			t.Errorf("%s is gone", p)
		}
	}
	if now := shown(); now != seen {
		t.Errorf("git shows\n%s\nwant\n%s", now, seen)
	}
	git(t, repo, "fsck", "--strict")
	if left, _ := filepath.Glob(filepath.Join(repo, ".git/objects/tmp*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(filepath.Join(repo, ".git/refs/amberfs")); err == nil {
		t.Error("refs/amberfs was left behind")
	}
}

func TestExportMakesAHistory(t *testing.T) {
	isolate(t)
	repo := bareRepo(t)
	m := trees.NewMemory()
	st := m.State(t, trees.Spec{"f": trees.File("1\n")})
	first := export(t, m, st, repo, nil)
	again := export(t, m, st, repo, nil)
	if again.Commit != first.Commit || again.Previous != first.Commit {
		t.Errorf("the same export twice: %+v then %+v", first, again)
	}
	second := export(t, m, m.State(t, trees.Spec{"f": trees.File("2\n")}), repo, func(o *ExportOptions) {
		o.Info.Name, o.Info.Parents = "v2", []string{first.Commit}
	})
	if got := git(t, repo, "rev-parse", "refs/sandbox/snapshots/v2^"); got != first.Commit {
		t.Errorf("parent %s, want %s", got, first.Commit)
	}
	alone := export(t, m, st, repo, func(o *ExportOptions) {
		o.Info.Name, o.Info.Parents, o.NoParent, o.Message = "v3", []string{second.Commit}, true, "by hand"
	})
	if alone.Parent != "" || strings.Contains(git(t, repo, "cat-file", "commit", alone.Commit), "parent ") {
		t.Errorf("--no-parent has the parent %s", alone.Parent)
	}
	if got := git(t, repo, "log", "-1", "--format=%s", alone.Commit); got != "by hand" {
		t.Errorf("subject %q", got)
	}
	if got := git(t, repo, "log", "-1", "--format=%an <%ae> %at|%B", first.Commit); !strings.HasPrefix(got, "A U Thor <author@example.com> 1700000000|first\n\nbody\n\nSnapshot: v1\nSnapshot-Id: abab") {
		t.Errorf("commit %q", got)
	}
	for by, want := range map[string]string{
		"claude/4f2a": "claude/4f2a <claude/4f2a@localhost>|",
		"a b":         "A U Thor <author@example.com>|a <a@localhost>b <b@localhost>",
	} {
		by := export(t, m, st, repo, func(o *ExportOptions) {
			o.Info.Name, o.Info.Authors = "by", strings.Fields(by)
			o.Ref = fmt.Sprintf("refs/by/%d", len(by))
		})
		got := git(t, repo, "log", "-1", "--format=%an <%ae>|%(trailers:key=Co-authored-by,valueonly,separator=)", by.Commit)
		if got != want {
			t.Errorf("author %q, want %q", got, want)
		}
	}
	// A parent that this repository does not have is ignored.
	other := export(t, m, st, bareRepo(t), func(o *ExportOptions) { o.Info.Parents = []string{second.Commit} })
	if other.Parent != "" {
		t.Errorf("parent %s in a repository that has no such commit", other.Parent)
	}
}

func TestExportRefusals(t *testing.T) {
	isolate(t)
	repo := bareRepo(t)
	m := trees.NewMemory()
	st := m.State(t, trees.Spec{"f": trees.File("1\n")})
	first := export(t, m, st, repo, nil)
	git(t, repo, "symbolic-ref", "refs/sandbox/sym", "refs/sandbox/snapshots/v1")
	before := contents(t, repo)
	for name, c := range map[string]struct {
		change func(*ExportOptions)
		want   error
	}{
		"no repository":      {func(o *ExportOptions) { o.Repo = t.TempDir() }, ErrNotRepository},
		"no directory":       {func(o *ExportOptions) { o.Repo = filepath.Join(repo, "nowhere") }, ErrNotRepository},
		"a file":             {func(o *ExportOptions) { o.Repo = filepath.Join(repo, "config") }, ErrNotRepository},
		"below a repository": {func(o *ExportOptions) { o.Repo = filepath.Join(repo, "refs") }, ErrNotRepository},
		"branch":             {func(o *ExportOptions) { o.Ref = "refs/heads/main" }, ErrBadRef},
		"tag":                {func(o *ExportOptions) { o.Ref = "refs/tags/v1" }, ErrBadRef},
		"HEAD":               {func(o *ExportOptions) { o.Ref = "HEAD" }, ErrBadRef},
		"stash":              {func(o *ExportOptions) { o.Ref = "refs/stash" }, ErrBadRef},
		"bad name":           {func(o *ExportOptions) { o.Ref = "refs/a b" }, ErrBadRef},
		"dots":               {func(o *ExportOptions) { o.Ref = "refs/a/../b" }, ErrBadRef},
		"option":             {func(o *ExportOptions) { o.Ref = "--stdin" }, ErrBadRef},
		"symbolic":           {func(o *ExportOptions) { o.Ref = "refs/sandbox/sym" }, ErrBadRef},
		"in another's way":   {func(o *ExportOptions) { o.Ref = "refs/sandbox/snapshots/v1/x" }, ErrBadRef},
		"canceled":           {nil, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			o := ExportOptions{Source: m.Src, State: m.State(t, trees.Spec{"other": trees.File(name)}), Info: testInfo, Repo: repo}
			if c.change == nil {
				cancel()
			} else {
				c.change(&o)
			}
			_, err := Export(ctx, o)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			t.Log(err)
		})
	}
	after := contents(t, repo)
	for p := range after {
		if strings.HasPrefix(p, "objects/") {
			continue
		}
		if after[p] != before[p] {
			t.Errorf("%s changed", p)
		}
	}
	r, err := openRepository(context.Background(), repo, trustData)
	check(t, err)
	wrong := strings.Repeat("1", 40)
	if err := r.updateRef(context.Background(), "refs/sandbox/snapshots/v1", wrong, first.Commit, "x"); !errors.Is(err, ErrRefMoved) {
		t.Errorf("moved ref: %v", err)
	}
	if err := r.updateRef(context.Background(), "refs/sandbox/snapshots/v1", "", first.Commit, "x"); !errors.Is(err, ErrRefMoved) {
		t.Errorf("ref that came meanwhile: %v", err)
	}
}

func TestExportRespectsSafeDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving a directory away needs root")
	}
	isolate(t)
	repo := bareRepo(t)
	check(t, os.Chown(repo, 65534, 65534))
	m := trees.NewMemory()
	o := ExportOptions{Source: m.Src, State: m.State(t, trees.Spec{"f": trees.File("1\n")}), Info: testInfo, Repo: repo}
	if _, err := Export(context.Background(), o); !errors.Is(err, ErrUnsafe) {
		t.Errorf("error %v, want %v", err, ErrUnsafe)
	}
	git(t, "/", "config", "--global", "--add", "safe.directory", repo)
	if _, err := Export(context.Background(), o); err != nil {
		t.Errorf("trusted: %v", err)
	}
}

func TestExportMakesTheStoresRepository(t *testing.T) {
	isolate(t)
	m := trees.NewMemory()
	repo := filepath.Join(t.TempDir(), "store", "git")
	for range 2 {
		res := export(t, m, m.State(t, trees.Spec{"f": trees.File("1\n")}), repo, func(o *ExportOptions) { o.Create = true })
		if got := git(t, repo, "rev-parse", "refs/snapshots/v1"); got != res.Commit {
			t.Errorf("ref %s, want %s", got, res.Commit)
		}
	}
}

func TestFullDiskLeavesNothing(t *testing.T) {
	isolate(t)
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("no tmpfs:", err)
	}
	defer unix.Unmount(disk, 0)
	repo := filepath.Join(disk, "r")
	check(t, os.Mkdir(repo, 0o755))
	git(t, repo, "init", "-q", "--bare")
	before := contents(t, repo)
	var noise bytes.Buffer
	for i := range 400_000 {
		fmt.Fprintf(&noise, "%x", i*2654435761)
	}
	m := trees.NewMemory()
	_, err := Export(context.Background(), ExportOptions{Source: m.Src, State: m.State(t, trees.Spec{"f": trees.File(noise.String())}), Info: testInfo, Repo: repo})
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v, want ENOSPC", err)
	}
	if after := contents(t, repo); !reflect.DeepEqual(before, after) {
		t.Error("the repository changed")
	}
}

// TestLargeDirectory: fast-import gets a large directory as a tree, and not each file, because it would compare each
// file with all others.
func TestLargeDirectory(t *testing.T) {
	isolate(t)
	for _, dir := range []string{"", "d/many/"} {
		s := trees.Spec{".gitattributes": trees.File("*.txt text\n"), dir + "sub/f": trees.File("1"), dir + "a.txt": trees.File("a\r\n"), dir + "x": trees.Exe("x"), dir + "new\nline": trees.Link("x"), dir + "p": trees.Fifo(), "z": trees.File("z")}
		for i := range minMktreeFiles {
			s[fmt.Sprintf("%sfile%d", dir, i)] = trees.File(fmt.Sprint(i % 100))
		}
		sameAsGit(t, bareRepo(t), s)
		m, repo := trees.NewMemory(), bareRepo(t)
		export(t, m, m.State(t, s), repo, nil)
		loose, err := filepath.Glob(filepath.Join(repo, "objects/??/*"))
		check(t, err)
		trees := 0
		for _, name := range loose {
			id := filepath.Base(filepath.Dir(name)) + filepath.Base(name)
			if git(t, repo, "cat-file", "-t", id) == "tree" && strings.Count(git(t, repo, "ls-tree", id), "\n") > minMktreeFiles {
				trees++
			}
		}
		if trees == 0 {
			t.Errorf("the tree of %q was not made at once", dir)
		}
	}
}

// TestLastStepEnds: git fast-import starts another git process, which unpacks a small pack. This process ends when the
// export is cancelled.
func TestLastStepEnds(t *testing.T) {
	isolate(t)
	git, err := exec.LookPath("git")
	check(t, err)
	repo, bin := bareRepo(t), t.TempDir()
	running := filepath.Join(bin, "running")
	check(t, unix.Mkfifo(running, 0o600))
	check(t, os.WriteFile(filepath.Join(bin, "git"), fmt.Appendf(nil,
		"#!/bin/sh\n[ $1 != unpack-objects ] || exec sleep 1000 >%s\nexec %s \"$@\"\n", running, git), 0o755))
	t.Setenv("GIT_EXEC_PATH", bin)
	m := trees.NewMemory()
	st := m.Seal(t, m.State(t, trees.Spec{"a": trees.File("1")}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := Export(ctx, ExportOptions{Source: m.Src, State: st, Info: testInfo, Repo: repo})
		done <- err
	}()
	open := make(chan *os.File, 1)
	go func() {
		f, err := os.Open(running) // waits until the other git runs
		if err != nil {
			t.Error(err)
		}
		open <- f
	}()
	f := await.Receive(t, "the last step begins", open)
	defer f.Close()
	cancel()
	if err := await.Receive(t, "the export ends", done); !errors.Is(err, context.Canceled) {
		t.Errorf("an export that was cancelled: %v", err)
	}
	ended := make(chan error, 1)
	go func() { _, err := f.Read(make([]byte, 1)); ended <- err }()
	if err := await.Receive(t, "the last step ends", ended); err != io.EOF {
		t.Error(err)
	}
}

// TestPathWithColon: git separates directories of objects by colons, unless their paths are quoted.
func TestPathWithColon(t *testing.T) {
	isolate(t)
	repo := filepath.Join(t.TempDir(), "a:b \"c\"\\")
	check(t, os.Mkdir(repo, 0o755))
	git(t, repo, "init", "-q", "--bare")
	m := trees.NewMemory()
	first := export(t, m, m.State(t, trees.Spec{"a": trees.File("1")}), repo, nil)
	second := export(t, m, m.State(t, trees.Spec{"a": trees.File("2")}), repo, func(o *ExportOptions) { o.Info.Parents = []string{first.Commit} })
	if got := git(t, repo, "rev-list", second.Commit); got != second.Commit+"\n"+first.Commit {
		t.Errorf("the commits %q", got)
	}
}
