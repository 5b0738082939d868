// Package sizes_test runs every command that moves data on trees of the size of real
// work: thousands of small files, files of many megabytes, hard links, a git
// repository, an installation of npm. What each command makes is compared with what
// the same program makes in an ordinary directory.
package sizes_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) {
	cache, err := os.MkdirTemp("", "")
	if err == nil {
		err = os.Setenv("XDG_CACHE_HOME", cache)
	}
	if err != nil {
		panic(err)
	}
	status := harness.Run(m)
	_ = os.RemoveAll(cache)
	os.Exit(status)
}

// A work is a sample with its trees on an ordinary filesystem.
type work struct {
	sample
	t             *testing.T
	before, after string // directories
	want          map[string]string
}

func TestSizes(t *testing.T) {
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := &work{sample: s, t: t}
			w.before = filepath.Join(t.TempDir(), "before")
			must.OK(t, os.Mkdir(w.before, 0o755))
			s.make(t, w.before)
			w.after = w.copied(w.before)
			sh(t, w.after, s.change)
			w.again = strings.ReplaceAll(w.again, "$AFTER", w.after)
			if w.again == "" {
				w.again = w.change
			}
			if _, err := os.Stat(filepath.Join(w.after, "node_modules/p1")); err == nil {
				t.Log("the registry cannot be reached: the packages are made by hand")
			}
			w.want = read(t, w.after)
			w.t.Log("the sample")
			w.run()
			w.mounted()
			w.onlyTheMount()
		})
	}
}

// same fails the test unless a directory has what the sample's program makes.
func (w *work) same(what, dir string) {
	w.t.Helper()
	w.compare(what, w.want, read(w.t, dir))
	w.t.Log(what)
}

// sameByGit is same, but repositories are the same by what git says of them: objects that the
// program removed or packed stay as they were.
func (w *work) sameByGit(what, dir string) {
	w.t.Helper()
	if !w.repository() {
		w.same(what, dir)
		return
	}

	w.compare(what, withoutGit(w.want), withoutGit(read(w.t, dir)))
	const ask = "git fsck --full --strict --no-dangling 2>&1; git rev-parse HEAD; git symbolic-ref HEAD; git for-each-ref; git stash list; git log --format=%H --all; git --no-optional-locks status --porcelain; git diff --cached --stat"
	w.compare(what+", git", map[string]string{"git": sh(w.t, w.after, ask)}, map[string]string{"git": sh(w.t, dir, ask)})
	w.t.Log(what)
}

// withoutGit is a tree without its git directory. The time of the root changes with that.
func withoutGit(tree map[string]string) map[string]string {
	tree = maps.Clone(tree)
	maps.DeleteFunc(tree, func(path, _ string) bool { return path == ".git" || strings.HasPrefix(path, ".git/") })
	return tree
}

func (w *work) compare(what string, want, got map[string]string) {
	w.t.Helper()
	if d := harness.Compare(want, got); d != "" {
		w.t.Fatalf("%s:\n%s", what, d)
	}
}

// amberfs runs a command in a directory.
func (w *work) amberfs(dir string, args ...string) string {
	w.t.Helper()
	return output(w.t, exec.Command(harness.Binary(w.t), args...), dir)
}

// run is `run --apply`.
func (w *work) run() {
	dir := w.copied(w.before)
	w.amberfs(dir, "run", "--from", ".", "--apply=yes", "--", "sh", "-ec", w.change)
	w.sameByGit("run --apply", dir)
}

// mounted are the commands that go through the socket.
func (w *work) mounted() {
	t := w.t
	dir := w.copied(w.before)
	m := harness.New(t, "--from", dir)
	m.Amberfs("snapshot", "old")
	sh(t, m.Dir, w.change)
	w.same("the workspace", m.Dir)
	w.amberfs(m.Dir, "apply", "--yes", dir)
	w.sameByGit("apply", dir)

	m.Amberfs("snapshot", "new")
	w.changes("diff --name-status", m.Amberfs("diff", "old", "new", "--name-status"))
	m.Amberfs("diff", "old", "new")
	if patched := w.copied(w.before); !w.noText {
		sh(t, patched, harness.Binary(t)+" -C "+m.Dir+" diff --binary old new | git apply --whitespace=nowarn -")
		w.compare("diff | git apply", contents(w.want), contents(read(t, patched)))
	}
	w.t.Log("diff")

	m.Amberfs("restore", "old")
	w.compare("restore", read(t, w.before), read(t, m.Dir))
	must.OK(t, os.Mkdir(m.Path(".forks/f"), 0o755))
	sh(t, m.Path(".forks/f"), w.again)
	m.Amberfs("merge", "f")
	w.sameByGit("merge", m.Dir)

	w.archives(m)
	w.remotes(m)
	if w.backup {
		w.restic(m)
	}
}

func (w *work) repository() bool { return strings.Contains(w.name, "git") }

// contents are those of the regular files of a tree: what git knows of it.
func contents(tree map[string]string) map[string]string {
	out := map[string]string{}
	for path, line := range tree {
		if strings.HasPrefix(line, "100") {
			line, _, _ = strings.Cut(line, " names, of ")
			words := strings.Fields(line)
			out[path] = strings.Join(words[1:4], " ")
		}
	}
	return out
}

// changes compares a list of changes with the paths that differ.
func (w *work) changes(what, list string) {
	w.t.Helper()
	was := read(w.t, w.before)
	all, want := maps.Clone(was), map[string]string{}
	maps.Copy(all, w.want)
	a, b := contents(was), contents(w.want)
	for path := range all {
		if a[path] != b[path] {
			want[path] = "changed"
		}
	}
	got := map[string]string{}
	for line := range strings.Lines(list) {
		for _, path := range strings.Split(strings.TrimSpace(line), "\t")[1:] {
			got[path] = "changed"
		}
	}
	for path := range want {
		if got[path] == "" {
			w.t.Errorf("%s: %q is not in the list", what, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if was[path] == w.want[path] && !strings.HasSuffix(path, ".git/index") {
			w.t.Errorf("%s: %q is in the list and did not change", what, path)
		}
	}
}

// archives are export and import.
func (w *work) archives(m *harness.Mount) {
	t, tar := w.t, filepath.Join(w.t.TempDir(), "tar")
	m.Amberfs("export", "new", "--tar", tar)
	out := w.t.TempDir()
	sh(t, out, "tar xpf "+tar)
	w.same("export --tar", out)

	into := harness.New(t)
	into.Amberfs("import", "--tar", tar, "tar")
	w.same("import --tar", into.Path("tar"))
	into.Amberfs("import", w.after, "dir")
	w.same("import of a directory", into.Path("dir"))

	repo := filepath.Join(w.t.TempDir(), "repo")
	if w.repository() {
		into.Amberfs("import", "--git", w.after, "HEAD", "git")
		sh(t, out, "rm -rf ..?* .[!.]* *; git -C "+w.after+" archive HEAD | tar xf -")
		w.compare("import --git", contents(read(t, out)), contents(read(t, into.Path("git"))))
		w.t.Log("import --git")
		return
	}
	sh(t, "/", "git init -q -b trunk "+repo+"; git -C "+repo+" config core.compression 0")
	m.Amberfs("export", "new", "--git", repo, "--ref", "refs/snapshots/new")
	sh(t, repo, "git checkout -q -f refs/snapshots/new")
	must.OK(t, os.RemoveAll(filepath.Join(repo, ".git/index")))
	checkedOut := read(t, repo)
	w.compare("export --git", contents(w.want), contents(withoutGit(checkedOut)))
	into.Amberfs("import", "--git", repo, "refs/snapshots/new", "git")
	w.compare("import --git", contents(w.want), contents(read(t, into.Path("git"))))
	w.t.Log("export and import --git")
}

// remotes are push, pull and mount --from.
func (w *work) remotes(m *harness.Mount) {
	t, url := w.t, "file://"+filepath.Join(w.t.TempDir(), "remote")
	m.Amberfs("remote", "add", "origin", url)
	m.Amberfs("push", "origin", "new")
	w.t.Log("push")
	other := harness.New(t)
	other.Amberfs("remote", "add", "origin", url)
	other.Amberfs("pull", "origin", "new")
	w.same("pull", other.Path(".snapshots/new"))
	w.same("mount --from a remote", harness.New(t, "--from", url+"@new").Dir)
}

func (w *work) restic(m *harness.Mount) {
	harness.SkipWithout(w.t, "restic")
	restic := "RESTIC_PASSWORD=a restic -q --no-cache --repo " + w.t.TempDir() + " "
	sh(w.t, m.Path(".snapshots/new"), restic+"init; "+restic+"backup .")
	out := w.t.TempDir()
	sh(w.t, out, restic+"restore latest --target .")
	w.same("backup", out)
}

// onlyTheMount is where the store's socket is out of reach.
func (w *work) onlyTheMount() {
	t := w.t
	if err := exec.Command("bwrap", "--ro-bind", "/", "/", "true").Run(); err != nil {
		harness.SkipWithout(t, "bwrap")
		t.Log("bubblewrap does not work here: ", err)
		return
	}
	m, out := harness.New(t, "--from", w.before), w.t.TempDir()
	inside := exec.Command("bwrap", "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc",
		"--bind", m.Dir, m.Dir, "--tmpfs", m.Store, "--bind", out, out, "--bind", os.TempDir(), os.TempDir(),
		"--chdir", m.Dir, "--die-with-parent", "sh", "-ec", `
		amberfs=$1 out=$2 change=$3
		$amberfs snapshot old >/dev/null
		(eval "$change")
		$amberfs snapshot new >/dev/null
		$amberfs diff old new --name-status >$out/changes
		mkdir $out/tar; tar cf - . | tar xpf - -C $out/tar
		cp -a --no-target-directory . $out/cp
		$amberfs restore old >/dev/null
		$amberfs fork f >/dev/null
		(cd .forks/f; eval "$change")
		$amberfs merge f >/dev/null`, "sh", harness.Binary(t), out, w.again)
	output(t, inside, "/")
	list, err := os.ReadFile(filepath.Join(out, "changes"))
	must.OK(t, err)
	w.changes("diff, the mount alone", string(list))
	w.same("tar, the mount alone", filepath.Join(out, "tar"))
	w.same("cp, the mount alone", filepath.Join(out, "cp"))
	w.sameByGit("merge, the mount alone", m.Dir)
}
