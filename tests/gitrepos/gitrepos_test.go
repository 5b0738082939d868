// Package gitrepos compares amberfs with git on real repositories: what comes in
// from git, through a workspace and a snapshot, goes out as the same tree.
//
// GIT_REPOS names repositories, separated by colons; without it, the clone that
// this file is in is taken. GIT_REVS is how many revisions of each are tried,
// spread over its whole history.
package gitrepos

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// command runs a program in dir and returns what it printed, without the last
// line end.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	// Settings of the user that runs the tests have no part in them.
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_CONFIG_SYSTEM=/dev/null/none", "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_CONFIG_KEY_1=gc.auto", "GIT_CONFIG_VALUE_1=0",
		"GIT_CONFIG_KEY_2=protocol.file.allow", "GIT_CONFIG_VALUE_2=always")
	cmd.Env = append(cmd.Env, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return command(t, dir, nil, "git", args...)
}

func amberfs(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return command(t, dir, nil, harness.Binary(t), args...)
}

// repos are the repositories to try.
func repos(t *testing.T) []string {
	t.Helper()
	if list := os.Getenv("GIT_REPOS"); list != "" {
		return strings.Split(list, ":")
	}
	out, err := exec.Command("git", "-c", "safe.directory=*", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Skip("these sources are in no git repository")
	}
	return []string{strings.TrimSpace(string(out))}
}

func each(t *testing.T, f func(t *testing.T, repo string)) {
	for _, repo := range repos(t) {
		t.Run(filepath.Base(strings.TrimSuffix(repo, "/repo")), func(t *testing.T) { f(t, repo) })
	}
}

// revisions are n of a repository, from its newest to its oldest.
func revisions(t *testing.T, repo string, n int) []string {
	t.Helper()
	all := strings.Fields(git(t, repo, "rev-list", "--topo-order", "HEAD"))
	if len(all) <= n {
		return all
	}
	out := make([]string, n)
	for i := range out {
		out[i] = all[i*(len(all)-1)/max(n-1, 1)]
	}
	return out
}

func TestRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, repo string) {
		m := harness.New(t)
		dest := filepath.Join(t.TempDir(), "dest.git")
		format := git(t, repo, "rev-parse", "--show-object-format")
		git(t, "/", "init", "-q", "--bare", "--object-format="+format, dest)
		for i, rev := range revisions(t, repo, harness.Count(t, "GIT_REVS", 3, 12)) {
			name := fmt.Sprintf("r%d", i)
			amberfs(t, m.Dir, "fork", "base", name)
			ws := m.Path(".forks", name)
			// The sources may lie in a worktree, or in a clone that shares its objects.
			amberfs(t, ws, "import", "--trust-config", "--git", repo, rev)
			amberfs(t, ws, "snapshot", name)
			commit := amberfs(t, ws, "export", name, "--git", dest)
			want, got := git(t, repo, "rev-parse", rev+"^{tree}"), git(t, dest, "rev-parse", commit+"^{tree}")
			if got != want && strings.Contains("\n"+git(t, repo, "ls-tree", "-r", rev), "\n100664 ") {
				// A mode that git wrote in 2005: it makes another tree of it itself.
				env := []string{"GIT_INDEX_FILE=" + filepath.Join(t.TempDir(), "index"), "GIT_OBJECT_DIRECTORY=" + t.TempDir(),
					"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + git(t, repo, "rev-parse", "--path-format=absolute", "--git-path", "objects")}
				command(t, repo, env, "git", "read-tree", rev)
				want = command(t, repo, env, "git", "write-tree")
			}
			if got != want {
				t.Errorf("%s: tree %s, want %s", rev, got, want)
			}
			if ref := git(t, dest, "rev-parse", "refs/sandbox/snapshots/"+name); ref != commit {
				t.Errorf("%s: the ref is %s, the commit %s", rev, ref, commit)
			}
		}
		git(t, dest, "fsck", "--no-dangling")
	})
}

// TestWorktrees exports what git has checked out, with files beside it that are
// ignored and others that are not, by settings that change what git add makes.
func TestWorktrees(t *testing.T) {
	each(t, func(t *testing.T, repo string) {
		m := harness.New(t)
		work := filepath.Join(t.TempDir(), "work")
		for i, rev := range revisions(t, repo, harness.Count(t, "GIT_REVS", 1, 2)) {
			for _, crlf := range []string{"", "true", "input"} {
				name := fmt.Sprintf("w%d%s", i, crlf)
				must.OK(t, os.RemoveAll(work))
				git(t, "/", "clone", "-q", "--shared", "--no-checkout", repo, work)
				if crlf != "" {
					git(t, work, "config", "core.autocrlf", crlf)
				}
				git(t, work, "-c", "advice.detachedHead=false", "checkout", "-q", "-f", rev)
				litter(t, work)
				amberfs(t, m.Dir, "fork", "base", name)
				ws := m.Path(".forks", name)
				amberfs(t, ws, "import", work)
				amberfs(t, ws, "snapshot", name)
				for _, honour := range []bool{false, true} {
					args := []string{"export", name, "--git", work}
					if honour {
						args = append(args, "--gitignore")
					}
					got := git(t, work, "rev-parse", amberfs(t, ws, args...)+"^{tree}")
					if want := addAll(t, work, honour); got != want {
						t.Errorf("%.10s autocrlf=%q gitignore=%v: tree %s, git add makes %s\n%s", rev, crlf, honour, got, want,
							git(t, work, "diff-tree", "-r", want, got))
					}
				}
			}
		}
	})
}

// litter puts files into a worktree, as builds and editors do.
func litter(t *testing.T, work string) {
	t.Helper()
	dirs := strings.Fields(git(t, work, "ls-tree", "-r", "-d", "--name-only", "HEAD"))
	write := func(name, text string, mode os.FileMode) {
		name = filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return // something of the repository is in the way
		}
		if _, err := os.Lstat(name); err == nil {
			return
		}
		must.OK(t, os.WriteFile(name, []byte(text), mode))
	}
	write(".git/info/exclude", "", 0o644)
	exclude := "*.excluded\n/only-top\n!kept.excluded\nsome*dir/\n"
	must.OK(t, os.WriteFile(filepath.Join(work, ".git/info/exclude"), []byte(exclude), 0o644))
	for i := 0; i < len(dirs); i += 1 + len(dirs)/20 {
		d := dirs[i]
		for _, name := range []string{"x.o", "x.excluded", "kept.excluded", "only-top", "x~", ".x.swp", "build/x", "somedir/x"} {
			write(d+"/"+name, "litter in "+d+"\r\nof two lines\r\n", 0o644)
		}
	}
	write("only-top", "", 0o755)
	write("new/deep/.gitignore", "*\n!.gitignore\n!*.c\n", 0o644)
	write("new/deep/a.c", "int a;\n", 0o600)
	write("new/deep/a.h", "extern int a;\n", 0o600)
	write("new/-leading \"dash\"\nand newline\xff", "odd\n", 0o755)
	write("new/empty/.gitignore", "", 0o644)
	// It may be there already.
	_ = os.Symlink("../README", filepath.Join(work, "new/link"))
	_ = os.Mkdir(filepath.Join(work, "new/nothing"), 0o755)
}

// addAll is what git add makes of a worktree in an empty index.
func addAll(t *testing.T, work string, ignore bool) string {
	t.Helper()
	index := filepath.Join(t.TempDir(), "index")
	args := []string{"-c", "core.safecrlf=false", "add", "--all"}
	if !ignore {
		args = append(args, "--force")
	}
	env := []string{"GIT_INDEX_FILE=" + index}
	command(t, work, env, "git", append(args, ".")...)
	return command(t, work, env, "git", "write-tree")
}
