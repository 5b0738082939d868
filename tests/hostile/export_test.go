package hostile_test

import (
	"encoding/json"
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func export(ws, line string) error {
	return os.WriteFile(filepath.Join(ws, ".snapshots", "export"), []byte(line+"\n"), 0o644)
}

// ownRefs is where the refs of a fork are, as the result of its last export says.
func ownRefs(t *testing.T, ws, snapshot string) string {
	t.Helper()
	var done struct{ Ref string }
	b, err := os.ReadFile(filepath.Join(ws, ".snapshots", "export"))
	must.OK(t, err)
	must.OK(t, json.Unmarshal(b, &done))
	if !strings.HasSuffix(done.Ref, "/snapshots/"+snapshot) || !strings.HasPrefix(done.Ref, "refs/forks/") {
		t.Fatalf("an export from %s says %s", ws, b)
	}
	return strings.TrimSuffix(done.Ref, "snapshots/"+snapshot)
}

// foreignRefs exports a fork's snapshot to refs that are not the fork's own.
func foreignRefs(t *testing.T, ws, snapshot, own string) {
	t.Helper()
	for _, ref := range []string{
		"refs/snapshots/v", "refs/forks/other/v", "refs/forks/f", "refs/forks/f/v", strings.TrimSuffix(own, "/"), strings.TrimSuffix(own, "/") + "1/v",
		own + "../../snapshots/v",
		"refs/heads/main", "refs/tags/v", "refs/replace/v", "refs/stash", "HEAD", "-f",
	} {
		if err := export(ws, snapshot+" "+ref); !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s from %s: %v", ref, ws, err)
		}
	}
}

// TestExportFromAFork: an export from a fork, or from a fork in it, writes refs of its
// own only, and no process writes one that git gives a meaning to.
func TestExportFromAFork(t *testing.T) {
	m := harness.New(t)
	fork := m.Path(".forks", "f")
	inner := filepath.Join(fork, ".forks", "g")
	for i, ws := range []string{m.Dir, fork, inner} {
		if i > 0 {
			must.OK(t, os.Mkdir(ws, 0o755))
		}
		must.OK(t, os.WriteFile(filepath.Join(ws, "file"), []byte(ws), 0o644))
		must.OK(t, os.Mkdir(filepath.Join(ws, ".snapshots", "v"), 0o755))
		must.OK(t, export(ws, "v"))
	}
	refs := func() string {
		t.Helper()
		out, err := exec.Command("git", "-c", "safe.directory=*", "-C", filepath.Join(m.Store, "git"), "for-each-ref", "--format=%(refname) %(objectname)").Output()
		must.OK(t, err)
		return string(out)
	}
	ofFork, ofInner := ownRefs(t, fork, "v"), ownRefs(t, inner, "v")
	before := refs()
	for _, ref := range []string{"refs/snapshots/v ", ofFork + "snapshots/v ", ofInner + "snapshots/v "} {
		if !strings.Contains(before, ref) {
			t.Errorf("there is no %s: %s", ref, before)
		}
	}
	for _, ws := range []string{fork, inner} {
		foreignRefs(t, ws, "v", ofFork)
	}
	if err := export(inner, "v "+ofFork+"snapshots/v"); !errors.Is(err, unix.EPERM) {
		t.Errorf("a ref of the fork that it is in: %v", err)
	}
	for _, ref := range []string{"refs/heads/main", "refs/replace/v", "refs/stash", "HEAD", ofFork + "snapshots/v", "refs/forks/9999/v"} {
		if err := export(m.Dir, "v "+ref); !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			t.Errorf("%s from main: %v", ref, err)
		}
	}
	if after := refs(); after != before {
		t.Errorf("the refs were\n%sand are\n%s", before, after)
	}
}

// TestExportsEndWithTheirFork: a fork of the same name has none of its refs, and the
// objects are freed.
func TestExportsEndWithTheirFork(t *testing.T) {
	m := harness.New(t)
	repo := filepath.Join(m.Store, "git")
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", repo}, args...)...).CombinedOutput()
		if err != nil {
			return "error: " + string(out)
		}
		return strings.TrimSpace(string(out))
	}
	fork := m.Path(".forks", "f")
	export := func(text string) string {
		t.Helper()
		must.OK(t, os.Mkdir(fork, 0o755))
		must.OK(t, os.WriteFile(filepath.Join(fork, "file"), []byte(text), 0o644))
		must.OK(t, os.Mkdir(filepath.Join(fork, ".snapshots", "v"), 0o755))
		must.OK(t, os.WriteFile(filepath.Join(fork, ".snapshots", "export"), []byte("v\n"), 0o644))
		return git("for-each-ref", "--format=%(refname)")
	}
	first := export("a secret of the first")
	blob := git("rev-parse", first+":file")
	m.Amberfs("fork", "--discard", "f")
	second := export("the second")
	if second == first || strings.Contains(second, first+"\n") {
		t.Errorf("the refs were %q, and are %q with another fork", first, second)
	}
	harness.Eventually(t, "the object of a fork that ended is gone", func() bool {
		return strings.HasPrefix(git("cat-file", "-p", blob), "error")
	})
	if got := git("cat-file", "-p", second+":file"); got != "the second" {
		t.Errorf("the other fork's export has %q", got)
	}
}

// TestExportsDoNotWaitForEachOther: while a fork's export goes on, another fork can end, main
// exports, and the fork's export ends when its caller is killed, or with the fork.
func TestExportsDoNotWaitForEachOther(t *testing.T) {
	m := harness.New(t)
	fork, other := m.Path(".forks", "f"), m.Path(".forks", "g")
	must.OK(t, os.Mkdir(fork, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(fork, "holes"), nil, 0o644))
	must.OK(t, os.Truncate(filepath.Join(fork, "holes"), 900<<30))
	must.OK(t, os.WriteFile(filepath.Join(fork, "more holes"), nil, 0o644))
	must.OK(t, os.Truncate(filepath.Join(fork, "more holes"), 1<<62-1))
	must.OK(t, os.Mkdir(filepath.Join(fork, ".snapshots", "v"), 0o755))
	running := func() bool {
		names, _ := filepath.Glob(filepath.Join(m.Store, "git/objects/tmp_objdir-amberfs-*"))
		return len(names) > 0
	}
	wait := func(what string, want bool) {
		t.Helper()
		harness.Eventually(t, what, func() bool { return running() == want })
	}
	begin := func() *exec.Cmd {
		cmd := exec.Command("sh", "-c", `exec echo v > "$0"`, filepath.Join(fork, ".snapshots", "export"))
		must.OK(t, cmd.Start())
		wait("the export begins", true)
		return cmd
	}
	cmd := begin()
	must.OK(t, os.Mkdir(other, 0o755))
	must.OK(t, os.Remove(other))
	must.OK(t, os.WriteFile(m.Path("file"), []byte("main"), 0o644))
	must.OK(t, os.Mkdir(m.Path(".snapshots", "v"), 0o755))
	must.OK(t, export(m.Dir, "v"))
	if !running() {
		t.Error("the fork's export has ended: nothing was tried")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	wait("the export of a process that was killed ends", false)
	cmd = begin()
	m.Amberfs("fork", "--discard", "f")
	wait("the export of a fork ends with it", false)
	_ = cmd.Wait()
	if !strings.Contains(m.Log(), "the fork ended during the export") {
		t.Errorf("the log has no reason: %s", m.Log())
	}
}

// TestExportStopsAtTheLimit: files that share their bytes are as many in git as they are
// files, and an export of them ends where the fork's limit does.
func TestExportStopsAtTheLimit(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path(".snapshots", "policy"), []byte(`{"forks":{"unshared_bytes":20000000}}`), 0o644))
	fork := m.Path(".forks", "f")
	must.OK(t, os.Mkdir(fork, 0o755))
	content := make([]byte, 8<<20)
	_, _ = rand.New(rand.NewSource(1)).Read(content) // how it is cut into chunks decides what a changed byte takes
	must.OK(t, os.WriteFile(filepath.Join(fork, "0"), content, 0o644))
	for i := 1; i < 20; i++ {
		name := filepath.Join(fork, strconv.Itoa(i))
		out, err := exec.Command("cp", filepath.Join(fork, "0"), name).CombinedOutput()
		if err != nil {
			t.Fatalf("%s", out)
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		must.OK(t, err)
		_, err = f.WriteAt([]byte{byte(i)}, 0)
		must.OK(t, errors.Join(err, f.Close()))
	}
	must.OK(t, os.Mkdir(filepath.Join(fork, ".snapshots", "v"), 0o755))
	if err := export(fork, "v"); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("160 MiB in a fork of 20 MiB: %v", err)
	}
	if free := statfs(t, fork); free < 8<<20 {
		t.Errorf("%d bytes are left after an export that was refused", free)
	}
}

func statfs(t *testing.T, dir string) int64 {
	t.Helper()
	var s unix.Statfs_t
	must.OK(t, unix.Statfs(dir, &s))
	return int64(s.Bavail) * s.Frsize
}
