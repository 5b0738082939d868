package gitbridge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// TestFilesThatNeverEnd: a repository in which git would wait for a FIFO, or read a device or
// a huge file to its end, is refused with each kind of trust. /dev/null is read as an empty file.
func TestFilesThatNeverEnd(t *testing.T) {
	isolate(t)
	pipe, huge := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "huge")
	must.OK(t, unix.Mkfifo(pipe, 0o600))
	must.OK(t, os.WriteFile(huge, nil, 0o600))
	must.OK(t, os.Truncate(huge, 1<<40))
	config := func(key, value string) func(string) {
		return func(repo string) { git(t, repo, "config", key, value) }
	}
	at := func(name string) func(string) {
		return func(repo string) {
			must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(repo, name)), 0o755))
			must.OK(t, os.RemoveAll(filepath.Join(repo, name)))
			must.OK(t, os.Symlink(pipe, filepath.Join(repo, name)))
		}
	}
	lists := func(name string) func(string) { // in a file of configuration that another one includes
		return func(repo string) {
			must.OK(t, os.WriteFile(filepath.Join(repo, "more"), []byte("[include]\n\tpath = "+name+"\n"), 0o600))
			git(t, repo, "config", "include.path", "more")
		}
	}
	for name, make := range map[string]func(repo string){
		"attributes of zeros":     config("core.attributesFile", "/dev/zero"),
		"ignores of zeros":        config("core.excludesFile", "/dev/zero"),
		"huge attributes":         config("core.attributesFile", huge),
		"attributes in a pipe":    config("core.attributesFile", pipe),
		"ignores in a pipe":       config("core.excludesFile", pipe),
		"configuration in a pipe": lists(pipe),
		"configuration of zeros":  lists("/dev/zero"),
		"a condition and a pipe":  config("includeIf.gitdir:/.path", pipe),
		"info/attributes":         at(infoAttributes),
		"info/exclude":            at(infoExclude),
		"config":                  at("config"),
		"HEAD":                    at("HEAD"),
		"packed-refs":             at("packed-refs"),
		"shallow":                 at("shallow"),
		"commondir":               at("commondir"),
		"alternates":              at("objects/info/alternates"),
		"the index of a pack":     at("objects/pack/pack-1.idx"),
		"a branch":                at("refs/amberfs/x"),
		"a log":                   at("logs/refs/amberfs/x"),
		"an object of another repository": func(repo string) {
			other := bareRepo(t)
			must.OK(t, os.Mkdir(filepath.Join(other, "objects/00"), 0o755))
			must.OK(t, unix.Mkfifo(filepath.Join(other, "objects/00/00000000000000000000000000000000000000"), 0o600))
			must.OK(t, os.WriteFile(filepath.Join(repo, alternatesPath), []byte("# one\n"+other+"/objects\n"), 0o600))
		},
		"null":                    config("core.attributesFile", os.DevNull),
		"null as a configuration": lists(os.DevNull),
		"a template and a worktree": func(repo string) {
			config("commit.template", pipe)(repo)
			config("core.hooksPath", pipe)(repo)
		},
	} {
		fine := name == "null" || name == "null as a configuration" || name == "a template and a worktree"
		for _, trusted := range []bool{false, true} {
			repo, m := bareRepo(t), trees.NewMemory()
			make(repo)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			_, err := Export(ctx, ExportOptions{Source: m.Src, State: m.State(t, attributed), Info: testInfo, Repo: repo,
				Ref: "refs/amberfs/x", Gitignore: true, TrustConfig: trusted})
			if fine && err != nil || !fine && !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s, trusted %v: error %v", name, trusted, err)
			}
			if ctx.Err() != nil {
				t.Fatalf("%s, trusted %v: git hangs", name, trusted)
			}
			cancel()
		}
	}
}

// TestTheUsersFilesOfRules: an export uses the files of rules that the user's settings name, at the paths at which git
// finds them.
func TestTheUsersFilesOfRules(t *testing.T) {
	isolate(t)
	home, _ := os.UserHomeDir()
	must.OK(t, os.WriteFile(filepath.Join(home, "own"), []byte("secret\n"), 0o600))
	must.OK(t, os.MkdirAll(filepath.Join(home, ".config/git"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(home, ".config/git/ignore"), []byte("other\n"), 0o600))
	for value, want := range map[string]string{"": "other", "~/own": "secret", filepath.Join(home, "own"): "secret", os.DevNull: ""} {
		repo, m := bareRepo(t), trees.NewMemory()
		if value != "" {
			git(t, repo, "config", "core.excludesFile", value)
		}
		res := export(t, m, m.State(t, trees.Spec{"secret": trees.File("1"), "other": trees.File("2")}), repo, func(o *ExportOptions) { o.Gitignore = true })
		has := git(t, repo, "ls-tree", "--name-only", res.Tree)
		for _, name := range []string{"secret", "other"} {
			if out := git(t, repo, "ls-tree", "--name-only", res.Tree, name) == ""; out != (name == want) {
				t.Errorf("core.excludesFile=%s: the tree has %q", value, has)
			}
		}
	}
}

// TestReadingPipes: neither reading a revision nor copying a linked working tree waits for a
// FIFO in the git directory.
func TestReadingPipes(t *testing.T) {
	isolate(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	repo, m := bareRepo(t), trees.NewMemory()
	res := export(t, m, m.State(t, attributed), repo, nil)
	object := filepath.Join(repo, "objects", res.Tree[:2], res.Tree[2:])
	must.OK(t, os.Remove(object))
	must.OK(t, unix.Mkfifo(object, 0o600))
	_, err := ReadGit(ctx, GitSource{Repo: repo, Rev: res.Commit}, trees.Discard, stream.Options{})
	if !errors.Is(err, ErrNotRegular) {
		t.Errorf("an object in a pipe: error %v", err)
	}
	work := filepath.Join(t.TempDir(), "work")
	repo = bareRepo(t)
	res = export(t, m, m.State(t, attributed), repo, nil)
	git(t, repo, "worktree", "add", "-q", "--detach", work, res.Commit)
	must.OK(t, os.Remove(filepath.Join(repo, "config")))
	must.OK(t, unix.Mkfifo(filepath.Join(repo, "config"), 0o600))
	done := make(chan error, 1)
	go func() {
		done <- hostdir.Read(ctx, work, trees.Discard, hostdir.ReadOptions{Git: HostGit{}, ReadDenied: true})
	}()
	select {
	case err := <-done:
		if !errors.Is(err, ErrNotRegular) {
			t.Errorf("a configuration in a pipe: error %v", err)
		}
	case <-ctx.Done():
		t.Error("a configuration in a pipe: reading the directory hangs")
	}
}

// TestTheUsersFilesThatNeverEnd: a file in the user's own configuration on which git would hang
// is refused with the name of the setting.
func TestTheUsersFilesThatNeverEnd(t *testing.T) {
	isolate(t)
	home, _ := os.UserHomeDir()
	pipe := filepath.Join(home, "pipe")
	must.OK(t, unix.Mkfifo(pipe, 0o600))
	for text, want := range map[string]string{
		"[include]\n\tpath = " + pipe:                  "include.path in ",
		"[includeIf \"gitdir:/\"]\n\tpath = /dev/zero": "includeif.gitdir:/.path in ",
		"[core]\n\tattributesFile = /dev/zero":         "core.attributesfile: /dev/zero",
		"[core]\n\texcludesFile = ~/pipe":              "core.excludesfile: " + pipe,
	} {
		for _, name := range []string{".gitconfig", ".config/git/config"} {
			must.OK(t, os.MkdirAll(filepath.Join(home, ".config/git"), 0o700))
			must.OK(t, os.WriteFile(filepath.Join(home, name), []byte(text+"\n"), 0o600))
			repo, m := filepath.Join(t.TempDir(), "repo"), trees.NewMemory()
			must.OK(t, initBare(t.Context(), repo, "sha1"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := Export(ctx, ExportOptions{Source: m.Src, State: m.State(t, attributed), Info: testInfo, Repo: repo, Ref: "refs/amberfs/x", Gitignore: true})
			if !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %s: error %v", name, text, err)
			}
			if ctx.Err() != nil {
				t.Fatalf("%s with %s: git hangs", name, text)
			}
			cancel()
			must.OK(t, os.Remove(filepath.Join(home, name)))
		}
	}
}
