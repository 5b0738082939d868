package gitbridge

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// loadSpec reads a directory of the host with all files below it.
func loadSpec(t testing.TB, root string) trees.Spec {
	t.Helper()
	s := trees.Spec{}
	must.OK(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			s[rel] = trees.Dir()
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(p)
			s[rel] = trees.Link(target)
			return err
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			s[rel] = trees.Node{Mode: unix.S_IFREG | uint32(info.Mode().Perm()), Data: string(data)}
			return err
		}
		return nil
	}))
	return s
}

// nestedRepos makes a directory with repositories of all kinds that git add accepts.
func nestedRepos(t testing.TB, work string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "source")
	must.OK(t, os.Mkdir(source, 0o755))
	git(t, source, "init", "-q")
	must.OK(t, os.WriteFile(filepath.Join(source, "f"), []byte("1\n"), 0o644))
	git(t, source, "add", ".")
	git(t, source, "commit", "-qm", "one")

	must.OK(t, os.MkdirAll(work, 0o755))
	git(t, work, "init", "-q")
	git(t, work, "clone", "-q", source, "clone")
	git(t, work, "clone", "-q", source, "detached")
	git(t, filepath.Join(work, "detached"), "checkout", "-q", "--detach")
	git(t, work, "clone", "-q", source, "packed")
	git(t, filepath.Join(work, "packed"), "pack-refs", "--all")
	git(t, work, "clone", "-q", source, "deep/down")
	git(t, work, "submodule", "--quiet", "add", source, "module")
	git(t, work, "clone", "-q", "--bare", source, "bare")
	git(t, work, "clone", "-q", source, "ignored")
	must.OK(t, os.WriteFile(filepath.Join(work, ".gitignore"), []byte("/ignored/\n"), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(work, "f"), []byte("f\n"), 0o644))
	must.OK(t, os.MkdirAll(filepath.Join(work, "almost/.git/objects"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(work, "almost/.git/HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(work, "almost/f"), []byte("f\n"), 0o644))
	must.OK(t, os.Rename(filepath.Join(work, "deep/down/.git"), filepath.Join(work, "deep/elsewhere")))
	must.OK(t, os.Symlink("../elsewhere", filepath.Join(work, "deep/down/.git")))
}

func TestNestedRepositoriesAsGitHasThem(t *testing.T) {
	isolate(t)
	work := filepath.Join(t.TempDir(), "work")
	nestedRepos(t, work)
	m := trees.NewMemory()
	st := m.State(t, loadSpec(t, work))
	repo := bareRepo(t)
	for _, gitignore := range []bool{false, true} {
		res := export(t, m, st, repo, func(o *ExportOptions) { o.Gitignore = gitignore })
		want := addAll(t, repo, work, gitignore)
		if res.Tree != want {
			t.Fatalf("gitignore=%v:\n%s\nwant\n%s", gitignore, git(t, repo, "ls-tree", "-r", res.Tree), git(t, repo, "ls-tree", "-r", want))
		}
		links := strings.Count(git(t, repo, "ls-tree", "-r", res.Tree), "160000 commit")
		if want := 6; gitignore && links != want-1 || !gitignore && links != want {
			t.Errorf("gitignore=%v: %d links", gitignore, links)
		}
	}
}

func TestNestedRepositoriesThatGitRefuses(t *testing.T) {
	isolate(t)
	work := filepath.Join(t.TempDir(), "work")
	must.OK(t, os.MkdirAll(filepath.Join(work, "unborn"), 0o755))
	git(t, filepath.Join(work, "unborn"), "init", "-q")
	must.OK(t, os.WriteFile(filepath.Join(work, "unborn/f"), []byte("1\n"), 0o644))
	must.OK(t, os.MkdirAll(filepath.Join(work, "outside"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(work, "outside/.git"), []byte("gitdir: /somewhere/else\n"), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(work, "outside/f"), []byte("1\n"), 0o644))
	must.OK(t, os.MkdirAll(filepath.Join(work, "upwards"), 0o755))
	must.OK(t, os.Symlink("../../../etc", filepath.Join(work, "upwards/.git")))
	must.OK(t, os.WriteFile(filepath.Join(work, "f"), []byte("1\n"), 0o644))
	m := trees.NewMemory()
	repo := bareRepo(t)
	res := export(t, m, m.State(t, loadSpec(t, work)), repo, nil)
	if got := git(t, repo, "ls-tree", "-r", "--name-only", res.Tree); got != "f" {
		t.Errorf("exported %q, want f", got)
	}
	var skipped []string
	for _, l := range res.Skipped {
		skipped = append(skipped, l.Path)
	}
	if got := strings.Join(skipped, " "); got != "outside unborn upwards" {
		t.Errorf("skipped %q", got)
	}
}
