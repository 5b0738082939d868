package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

func TestGitRoundTrip(t *testing.T) {
	isolate(t)
	for _, format := range []string{"sha1", "sha256"} {
		repo := bareRepo(t, "--object-format="+format)
		s := trees.Spec{"a": trees.File("1\r\n"), "b/c": trees.Exe("2"), "b/l": trees.Link("../a\n"), "e": trees.File(""), "\xff\n": trees.File("3"), ".gitattributes": trees.File("*.x text\n"),
			"big": trees.File(strings.Repeat("0123456789", trees.Mega/5)), strings.Repeat(strings.Repeat("d", 99)+"/", 39) + "f": trees.File("deep")}
		m := trees.NewMemory()
		first := export(t, m, m.State(t, s), repo, nil)
		for _, rev := range []string{"refs/sandbox/snapshots/v1", first.Commit, first.Tree, "refs/sandbox/snapshots/v1^{tree}", first.Commit[:12]} {
			sink := trees.NewMapSink(t)
			_, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: rev}, sink.Add, stream.Options{})
			must.OK(t, err)
			if got := sink.Plain(); !reflect.DeepEqual(got, s) {
				t.Errorf("%s came back as %v", rev, trees.Sorted(got))
			}
			if got := sink.Meta["b/c"].Mtime; rev == first.Commit && got != testInfo.Time.Truncate(time.Second).UnixNano() {
				t.Errorf("%s: mtime %d", rev, got)
			}
			again := export(t, m, m.State(t, sink.Plain()), repo, func(o *ExportOptions) { o.Info.Name = "again" })
			if again.Tree != first.Tree {
				t.Errorf("%s: tree %s, want %s", rev, again.Tree, first.Tree)
			}
		}
		sink := trees.NewMapSink(t)
		_, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: first.Commit + ":b"}, sink.Add, stream.Options{Umask: 0o027, Owner: &stream.Owner{UID: 5, GID: 6}})
		must.OK(t, err)
		if got := fmt.Sprint(trees.Sorted(sink.Plain())); got != "[c l]" {
			t.Errorf("the directory has %s", got)
		}
		if m := sink.Meta["c"]; m.Mode != unix.S_IFREG|0o750 || m.UID != 5 || m.GID != 6 || m.Mtime != 0 {
			t.Errorf("a file is %+v", m)
		}
	}
}

// sourceRepo makes a repository with unusual files, attributes and a submodule.
func sourceRepo(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	must.OK(t, os.Mkdir(dir, 0o755))
	git(t, dir, "init", "-q", "--object-format=sha1")
	trees.Spec{"a": trees.File("1\n"), "d/b": trees.Exe("2\n"), "d/l": trees.Link("../a"), "e": trees.File(""), "n\nl": trees.File("3\n"), "crlf.txt": trees.File("x\ny\n"), "id.c": trees.File("$Id$\n"),
		"u.utf16": trees.File("h\x00i\x00\n\x00"), ".gitattributes": trees.File("*.txt text eol=crlf\n*.c ident\n*.utf16 working-tree-encoding=UTF-16LE\n")}.Write(t, dir)
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "one")
	git(t, dir, "submodule", "--quiet", "add", dir, "sub")
	git(t, dir, "rm", "-q", "e")
	git(t, dir, "commit", "-qm", "two")
	return dir
}

func TestSubmodulesComeBack(t *testing.T) {
	isolate(t)
	source := sourceRepo(t)
	sink := trees.NewMapSink(t)
	var told []string
	_, err := ReadGit(context.Background(), GitSource{Repo: source, Rev: "HEAD"}, sink.Add, stream.Options{
		Umask: 0o022, Skip: func(p string, _ error) { told = append(told, p) }})
	must.OK(t, err)
	if fmt.Sprint(told) != "[sub]" {
		t.Errorf("told of %v", told)
	}
	got := sink.Files
	delete(got, ".")
	repo := bareRepo(t)
	m := trees.NewMemory()
	res := export(t, m, m.State(t, got), repo, nil)
	if want := git(t, source, "rev-parse", "HEAD^{tree}"); res.Tree != want {
		t.Errorf("tree %s, want %s", res.Tree, want)
	}
	// git add would stop at this file: what git stored is not in the encoding
	// of the working tree.
	if len(res.Reduced) != 1 || res.Reduced[0].Path != "u.utf16" {
		t.Errorf("reduced %v", res.Reduced)
	}
	delete(got, "u.utf16")
	work := filepath.Join(t.TempDir(), "work")
	got.Write(t, work)
	res = export(t, m, m.State(t, got), repo, nil)
	if want := addAll(t, repo, work, false); res.Tree != want {
		t.Errorf("tree %s, git add makes %s", res.Tree, want)
	}
	if want := git(t, source, "rev-parse", "HEAD:sub"); git(t, repo, "rev-parse", res.Tree+":sub") != want {
		t.Errorf("the submodule is not at %s", want)
	}
}

func TestReadGitRefusals(t *testing.T) {
	isolate(t)
	repo := bareRepo(t)
	blob := hashObject(t, repo, "blob", []byte("x"))
	id := make([]byte, 20)
	fmt.Sscanf(blob, "%x", &id)
	entry := func(mode, name string) string { return mode + " " + name + "\x00" + string(id) }
	treeOf := func(entries ...string) string { return hashObject(t, repo, "tree", []byte(strings.Join(entries, ""))) }
	forged := map[string]string{
		"upwards":       treeOf(entry("100644", "..")),
		"dot":           treeOf(entry("100644", ".")),
		"git directory": treeOf(entry("100644", ".git")),
		"slash":         treeOf(entry("100644", "a/../../x")),
		"absolute":      treeOf(entry("100644", "/etc")),
	}
	for name, id := range forged {
		sink := trees.NewMapSink(t)
		_, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: id}, sink.Add, stream.Options{})
		if !errors.Is(err, stream.ErrHostile) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	missing := treeOf("100644 f\x00" + strings.Repeat("\x01", 20))
	for name, c := range map[string]struct {
		from GitSource
		want error
	}{
		"no revision":    {GitSource{Repo: repo, Rev: "nowhere"}, ErrNoRevision},
		"exclusion":      {GitSource{Repo: repo, Rev: "^" + blob}, ErrNoRevision},
		"option":         {GitSource{Repo: repo, Rev: "--all"}, ErrNoRevision},
		"blob":           {GitSource{Repo: repo, Rev: blob}, ErrNoRevision},
		"no repository":  {GitSource{Repo: t.TempDir(), Rev: "HEAD"}, ErrNotRepository},
		"missing object": {GitSource{Repo: repo, Rev: missing}, nil},
	} {
		_, err := ReadGit(context.Background(), c.from, trees.Discard, stream.Options{})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		t.Log(err)
	}
}

// hashObject writes an object, also an invalid one.
func hashObject(t *testing.T, repo, kind string, data []byte) string {
	t.Helper()
	out, err := runGit(context.Background(), repo, nil, strings.NewReader(string(data)), "hash-object", "-w", "--stdin", "--literally", "-t", kind)
	must.OK(t, err)
	return strings.TrimSpace(string(out))
}
