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

	"github.com/amberfs/amberfs/tests/must"
)

func TestGitRoundTrip(t *testing.T) {
	isolate(t)
	for _, format := range []string{"sha1", "sha256"} {
		repo := bareRepo(t, "--object-format="+format)
		s := spec{"a": file("1\r\n"), "b/c": exe("2"), "b/l": link("../a\n"), "e": file(""), "\xff\n": file("3"), ".gitattributes": file("*.x text\n"),
			"big": file(strings.Repeat("0123456789", mega/5)), strings.Repeat(strings.Repeat("d", 99)+"/", 39) + "f": file("deep")}
		m := newMemory()
		first := export(t, m, m.state(t, s), repo, nil)
		for _, rev := range []string{"refs/sandbox/snapshots/v1", first.Commit, first.Tree, "refs/sandbox/snapshots/v1^{tree}", first.Commit[:12]} {
			sink := newMapSink(t)
			_, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: rev}, sink.add, ImportOptions{})
			must.OK(t, err)
			if got := sink.plain(); !reflect.DeepEqual(got, s) {
				t.Errorf("%s came back as %v", rev, sorted(got))
			}
			if got := sink.meta["b/c"].Mtime; rev == first.Commit && got != testInfo.Time.Truncate(time.Second).UnixNano() {
				t.Errorf("%s: mtime %d", rev, got)
			}
			again := export(t, m, m.state(t, sink.plain()), repo, func(o *ExportOptions) { o.Info.Name = "again" })
			if again.Tree != first.Tree {
				t.Errorf("%s: tree %s, want %s", rev, again.Tree, first.Tree)
			}
		}
		sink := newMapSink(t)
		_, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: first.Commit + ":b"}, sink.add, ImportOptions{Umask: 0o027, Owner: &Owner{5, 6}})
		must.OK(t, err)
		if got := fmt.Sprint(sorted(sink.plain())); got != "[c l]" {
			t.Errorf("the directory has %s", got)
		}
		if m := sink.meta["c"]; m.Mode != unix.S_IFREG|0o750 || m.UID != 5 || m.GID != 6 || m.Mtime != 0 {
			t.Errorf("a file is %+v", m)
		}
	}
}

// sourceRepo has odd files, attributes and a submodule.
func sourceRepo(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	must.OK(t, os.Mkdir(dir, 0o755))
	git(t, dir, "init", "-q", "--object-format=sha1")
	spec{"a": file("1\n"), "d/b": exe("2\n"), "d/l": link("../a"), "e": file(""), "n\nl": file("3\n"), "crlf.txt": file("x\ny\n"), "id.c": file("$Id$\n"),
		"u.utf16": file("h\x00i\x00\n\x00"), ".gitattributes": file("*.txt text eol=crlf\n*.c ident\n*.utf16 working-tree-encoding=UTF-16LE\n")}.write(t, dir)
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
	sink := newMapSink(t)
	var told []string
	_, err := ReadGit(context.Background(), GitSource{Repo: source, Rev: "HEAD"}, sink.add, ImportOptions{
		Umask: 0o022, Skip: func(p string, _ error) { told = append(told, p) }})
	must.OK(t, err)
	if fmt.Sprint(told) != "[sub]" {
		t.Errorf("told of %v", told)
	}
	got := sink.files
	delete(got, ".")
	repo := bareRepo(t)
	m := newMemory()
	res := export(t, m, m.state(t, got), repo, nil)
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
	got.write(t, work)
	res = export(t, m, m.state(t, got), repo, nil)
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
		sink := newMapSink(t)
		_, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: id}, sink.add, ImportOptions{})
		if !errors.Is(err, ErrHostile) {
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
		_, err := ReadGit(context.Background(), c.from, discard, ImportOptions{})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		t.Log(err)
	}
}

// hashObject writes an object however odd it is.
func hashObject(t *testing.T, repo, kind string, data []byte) string {
	t.Helper()
	out, err := run(context.Background(), repo, nil, strings.NewReader(string(data)), "hash-object", "-w", "--stdin", "--literally", "-t", kind)
	must.OK(t, err)
	return strings.TrimSpace(string(out))
}
