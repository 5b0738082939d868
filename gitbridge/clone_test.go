package gitbridge

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sourceRepo has history, a tag, odd files, attributes and a submodule.
func sourceRepo(t *testing.T, format string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	check(t, os.Mkdir(dir, 0o755))
	git(t, dir, "init", "-q", "--object-format="+format)
	spec{"a": file("1\n"), "d/b": exe("2\n"), "d/l": link("../a"), "e": file(""), "n\nl": file("3\n"), "crlf.txt": file("x\ny\n"), "id.c": file("$Id$\n"),
		"u.utf16": file("h\x00i\x00\n\x00"), ".gitattributes": file("*.txt text eol=crlf\n*.c ident\n*.utf16 working-tree-encoding=UTF-16LE\n")}.write(t, dir)
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "one")
	git(t, dir, "tag", "-a", "-m", "t", "v1")
	if format == "sha1" {
		git(t, dir, "submodule", "--quiet", "add", dir, "sub")
	}
	git(t, dir, "rm", "-q", "e")
	git(t, dir, "commit", "-qm", "two")
	git(t, dir, "branch", "other", "HEAD^")
	return dir
}

func TestCloneIsWhatGitCloneMakes(t *testing.T) {
	isolate(t)
	for name, c := range map[string]struct {
		format string
		change func(*CloneOptions)
		args   []string
	}{
		"plain":  {"sha1", nil, nil},
		"sha256": {"sha256", nil, nil},
		"branch": {"sha1", nil, []string{"--branch=other"}},
		"depth":  {"sha1", func(o *CloneOptions) { o.URL = "file://" + o.URL }, []string{"--depth=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			source := sourceRepo(t, c.format)
			o := CloneOptions{URL: source, Args: c.args, ImportOptions: ImportOptions{Umask: 0o022}}
			if c.change != nil {
				c.change(&o)
			}
			work := filepath.Join(t.TempDir(), "work")
			sink := diskSink{work}
			cloned, err := Clone(context.Background(), o, sink)
			check(t, err)
			if out := git(t, work, "status", "--porcelain"); out != "" {
				t.Errorf("before the index is stamped, git status says\n%s", out)
			}
			index := cloned.Index
			check(t, StampIndex(index, cloned.SHA256, sink.stat))
			indexFile := filepath.Join(work, ".git/index")
			check(t, os.WriteFile(indexFile, index, 0o644))

			// A status that had to read a file would write down what it found.
			if out := gitEnv(t, work, []string{"GIT_OPTIONAL_LOCKS=1"}, "status", "--porcelain"); out != "" {
				t.Errorf("git status says\n%s", out)
			}
			after, err := os.ReadFile(indexFile)
			check(t, err)
			if !bytes.Equal(index, after) {
				t.Error("git status found the index to be stale")
			}
			git(t, work, "fsck", "--strict")

			reference := filepath.Join(t.TempDir(), "reference")
			git(t, filepath.Dir(reference), append(append([]string{"clone", "-q"}, c.args...), o.URL, reference)...)
			ours, theirs := contents(t, work), contents(t, reference)
			for p, data := range theirs {
				switch {
				case strings.HasPrefix(p, ".git/objects/"), strings.HasPrefix(p, ".git/logs/"), p == ".git/index":
				case ours[p] != data:
					t.Errorf("%q is %q, git clone makes %q", p, ours[p], data)
				}
			}
			for p := range ours {
				if _, ok := theirs[p]; !ok && !strings.HasPrefix(p, ".git/objects/") {
					t.Errorf("%q came from nowhere", p)
				}
			}
			if a, b := git(t, work, "ls-files", "-s"), git(t, reference, "ls-files", "-s"); a != b {
				t.Errorf("index\n%s\nwant\n%s", a, b)
			}
			if cloned.Commit != git(t, reference, "rev-parse", "HEAD") {
				t.Errorf("commit %s", cloned.Commit)
			}
		})
	}
}

func TestCloneOfAnEmptyRepository(t *testing.T) {
	isolate(t)
	work := filepath.Join(t.TempDir(), "work")
	cloned, err := Clone(context.Background(), CloneOptions{URL: bareRepo(t)}, diskSink{work})
	check(t, err)
	if cloned.Commit != "" || cloned.Index != nil {
		t.Errorf("commit %q, index of %d bytes", cloned.Commit, len(cloned.Index))
	}
	if out := git(t, work, "status", "--porcelain"); out != "" {
		t.Errorf("git status says %s", out)
	}
}

func TestCloneFailures(t *testing.T) {
	isolate(t)
	for name, url := range map[string]string{"nothing there": filepath.Join(t.TempDir(), "none"), "option": "--upload-pack=touch /tmp/x", "command": "ext::touch /tmp/x"} {
		if _, err := Clone(context.Background(), CloneOptions{URL: url}, discard{}); err == nil {
			t.Errorf("%s: cloned", name)
		} else {
			t.Log(err)
		}
	}
}
