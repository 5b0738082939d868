package gitbridge

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// git runs git without the user's settings but with those that the test set in
// HOME.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return gitEnv(t, dir, nil, args...)
}

func gitEnv(t testing.TB, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(environment(env...), "GIT_ALLOW_PROTOCOL=file")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// isolate makes a test run without the user's git settings.
func isolate(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	must.OK(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(
		"[user]\n\tname = A U Thor\n\temail = author@example.com\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n"), 0o600))
}

// addAll returns the tree that git itself writes for the files in work.
func addAll(t testing.TB, repo, work string, gitignore bool) string {
	t.Helper()
	index := filepath.Join(repo, "test-index")
	os.Remove(index)
	defer os.Remove(index)
	env := []string{"GIT_INDEX_FILE=" + index, "GIT_DIR=" + repo, "GIT_WORK_TREE=" + work}
	args := []string{"-c", "core.safecrlf=false", "add", "--all"}
	if !gitignore {
		args = append(args, "--force")
	}
	gitEnv(t, work, env, args...)
	return gitEnv(t, work, env, "write-tree")
}

func bareRepo(t testing.TB, args ...string) string {
	t.Helper()
	repo := filepath.Join(t.TempDir(), "repo.git")
	must.OK(t, os.MkdirAll(repo, 0o755))
	git(t, repo, append([]string{"init", "-q", "--bare"}, args...)...)
	return repo
}

var testInfo = Info{Name: "v1", ID: strings.Repeat("ab", 32), Message: "first\n\nbody", Time: time.Unix(1_700_000_000, 5)}

// base returns an export as the Base of a later export.
func base(st *tree.State, res *Result) Base {
	return Base{Commit: res.Commit, State: func() (*tree.State, error) { return st, nil }}
}

func check(t testing.TB, err error) {
	t.Helper()
	must.OK(t, err)
}
