package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// booby makes a program that creates a file when it is run, and returns a function that reports whether the program
// was run.
func booby(t *testing.T) (program string, ran func() bool) {
	t.Helper()
	dir := t.TempDir()
	program, left := filepath.Join(dir, "program"), filepath.Join(dir, "ran")
	must.OK(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch "+left+"\ncat\n"), 0o755))
	return program, func() bool {
		_, err := os.Stat(left)
		return err == nil
	}
}

// arm names a program in all settings of a repository with which git runs programs.
func arm(t *testing.T, gitDir, program string) {
	t.Helper()
	for key, value := range map[string]string{
		"filter.x.clean": program, "filter.x.required": "true", "filter.y.process": program,
		"core.fsmonitor": program, "core.sshCommand": program, "core.alternateRefsCommand": program, "core.editor": program,
		"core.pager": program, "diff.x.textconv": program, "diff.external": program, "gpg.program": program, "credential.helper": program,
		"remote.origin.url": "ext::" + program, "remote.origin.uploadpack": program, "remote.origin.promisor": "true", "protocol.allow": "always",
	} {
		git(t, gitDir, "--git-dir="+gitDir, "config", key, value)
	}
	must.OK(t, os.MkdirAll(filepath.Join(gitDir, "info"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(gitDir, "info/attributes"), []byte("* filter=x diff=x\n"), 0o644))
	hooks := filepath.Join(gitDir, "hooks")
	must.OK(t, os.MkdirAll(hooks, 0o755))
	for _, hook := range []string{"reference-transaction", "post-index-change", "update", "pre-commit", "fsmonitor-watchman"} {
		_ = os.Remove(filepath.Join(hooks, hook))
		must.OK(t, os.Symlink(program, filepath.Join(hooks, hook)))
	}
}

var attributed = trees.Spec{".gitattributes": trees.File("* filter=x diff=x\nz filter=y\n"), "a": trees.File("a\n"), "z": trees.File("z\n")}

func TestARepositorysProgramsAreNotRun(t *testing.T) {
	isolate(t)
	for _, own := range []bool{false, true} {
		program, ran := booby(t)
		repo, m := filepath.Join(t.TempDir(), "git"), trees.NewMemory()
		git(t, "/", "init", "-q", "--bare", repo)
		arm(t, repo, program)
		do := func(change func(*ExportOptions)) *Result {
			return export(t, m, m.Seal(t, m.State(t, attributed)), repo, func(o *ExportOptions) {
				o.Create, o.Gitignore = own, true
				if change != nil {
					change(o)
				}
			})
		}
		res := do(nil)
		if ran() {
			t.Errorf("own %v: a program of the repository was run", own)
		}
		if got := git(t, repo, "cat-file", "-p", res.Tree+":a"); got != "a" {
			t.Errorf("own %v: a is %q", own, got)
		}
		_, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: res.Commit}, trees.Discard, stream.Options{})
		must.OK(t, err)
		blob := git(t, repo, "rev-parse", res.Tree+":a") // what is missing, a promisor has
		must.OK(t, os.Remove(filepath.Join(repo, "objects", blob[:2], blob[2:])))
		if _, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: res.Commit}, trees.Discard, stream.Options{}); err == nil {
			t.Error("read without objects")
		}
		if ran() {
			t.Errorf("own %v: a program of the repository was run by an import", own)
		}
	}
}

func TestTrustedFiltersAreRun(t *testing.T) {
	isolate(t)
	program, ran := booby(t)
	repo, m := bareRepo(t), trees.NewMemory()
	git(t, repo, "config", "filter.x.clean", program)
	export(t, m, m.Seal(t, m.State(t, attributed)), repo, func(o *ExportOptions) { o.TrustConfig = true })
	if !ran() {
		t.Error("the filter was not run")
	}
}

// TestTheStoresOwnRepositoryIsItsOwn: in the store's own repository, a .gitattributes file in a workspace cannot make
// git run filters of the daemon's user.
func TestTheStoresOwnRepositoryIsItsOwn(t *testing.T) {
	isolate(t)
	program, ran := booby(t)
	git(t, "/", "config", "--global", "filter.x.clean", program)
	repo, m := filepath.Join(t.TempDir(), "git"), trees.NewMemory()
	export(t, m, m.Seal(t, m.State(t, attributed)), repo, func(o *ExportOptions) { o.Create = true })
	if ran() {
		t.Error("a filter of the user was run")
	}
	theirs := filepath.Join(t.TempDir(), "theirs")
	must.OK(t, os.WriteFile(theirs, []byte("theirs"), 0o600))
	must.OK(t, os.MkdirAll(filepath.Join(repo, "logs"), 0o700))
	for _, name := range []string{"logs/HEAD", "config.new"} {
		must.OK(t, os.Link(theirs, filepath.Join(repo, name)))
		_, err := Export(context.Background(), ExportOptions{Source: m.Src, State: m.State(t, attributed), Info: testInfo, Repo: repo, Create: true})
		if text, rerr := os.ReadFile(theirs); !errors.Is(err, ErrNotSelfContained) || rerr != nil || string(text) != "theirs" {
			t.Errorf("a hard link %s: error %v, the file has %q", name, err, text)
		}
		must.OK(t, os.Remove(filepath.Join(repo, name)))
	}
	must.OK(t, os.RemoveAll(repo))
	must.OK(t, os.Symlink(t.TempDir(), repo))
	_, err := Export(context.Background(), ExportOptions{Source: m.Src, State: m.State(t, attributed), Info: testInfo, Repo: repo, Create: true})
	if !errors.Is(err, ErrNotSelfContained) {
		t.Errorf("a link in its place: error %v", err)
	}
}

func TestRepositoriesThatLeadElsewhere(t *testing.T) {
	isolate(t)
	for name, lead := range map[string]func(work, other string){
		"a .git file": func(work, other string) {
			must.OK(t, os.RemoveAll(filepath.Join(work, ".git")))
			must.OK(t, os.WriteFile(filepath.Join(work, ".git"), []byte("gitdir: "+other+"/.git\n"), 0o644))
		},
		"a .git link": func(work, other string) {
			must.OK(t, os.RemoveAll(filepath.Join(work, ".git")))
			must.OK(t, os.Symlink(other+"/.git", filepath.Join(work, ".git")))
		},
		"a common directory": func(work, other string) {
			must.OK(t, os.WriteFile(filepath.Join(work, ".git/commondir"), []byte(other+"/.git\n"), 0o644))
		},
		"objects": func(work, other string) {
			must.OK(t, os.RemoveAll(filepath.Join(work, ".git/objects")))
			must.OK(t, os.Symlink(other+"/.git/objects", filepath.Join(work, ".git/objects")))
		},
		"refs": func(work, other string) {
			must.OK(t, os.Symlink(other+"/.git/refs", filepath.Join(work, ".git/refs/sandbox")))
		},
	} {
		work, other, m := filepath.Join(t.TempDir(), "work"), filepath.Join(t.TempDir(), "other"), trees.NewMemory()
		git(t, "/", "init", "-q", work)
		git(t, "/", "init", "-q", other)
		lead(work, other)
		before := contents(t, other)
		o := ExportOptions{Source: m.Src, State: m.State(t, attributed), Info: testInfo, Repo: work}
		if _, err := Export(context.Background(), o); !errors.Is(err, ErrNotSelfContained) || !strings.Contains(err.Error(), "--trust-config") {
			t.Errorf("%s: error %v", name, err)
		}
		if after := contents(t, other); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: the other repository changed", name)
		}
		o.TrustConfig = true
		_, err := Export(context.Background(), o)
		must.OK(t, err)
	}
}

// TestObjectsBehindLinks: objects are not written through symbolic links.
func TestObjectsBehindLinks(t *testing.T) {
	isolate(t)
	for _, trusted := range []bool{false, true} {
		work, other, m := filepath.Join(t.TempDir(), "work"), t.TempDir(), trees.NewMemory()
		git(t, "/", "init", "-q", work)
		for i := range 256 {
			name := fmt.Sprintf("%02x", i)
			must.OK(t, os.Mkdir(filepath.Join(other, name), 0o755))
			must.OK(t, os.Symlink(filepath.Join(other, name), filepath.Join(work, ".git/objects", name)))
		}
		o := ExportOptions{Source: m.Src, State: m.State(t, attributed), Info: testInfo, Repo: work, TrustConfig: trusted}
		if _, err := Export(context.Background(), o); !errors.Is(err, ErrNotSelfContained) {
			t.Errorf("trusted %v: error %v", trusted, err)
		}
		if found := contents(t, other); len(found) > 0 {
			t.Errorf("trusted %v: objects were written to %v", trusted, found)
		}
		left, err := filepath.Glob(filepath.Join(work, ".git/objects/tmp_objdir*"))
		if err != nil || len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// TestObjectsAreCompressed: objects are compressed even if the settings of a repository forbid it. Otherwise the author
// of the files could choose the bytes that git writes.
func TestObjectsAreCompressed(t *testing.T) {
	isolate(t)
	repo, m := bareRepo(t), trees.NewMemory()
	for _, key := range []string{"core.compression", "core.looseCompression", "pack.compression"} {
		git(t, repo, "config", key, "0")
	}
	text := strings.Repeat("echo a command of a shell\n", 100)
	export(t, m, m.Seal(t, m.State(t, trees.Spec{"f": trees.File(text)})), repo, nil)
	must.OK(t, filepath.WalkDir(filepath.Join(repo, "objects"), func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if strings.Contains(string(b), "\necho a command") {
			t.Errorf("%s has the text as it is", p)
		}
		return err
	}))
}
