package actors

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// A repo is a clone with git, whose settings are its own.
type repo string

func (r repo) try(stdin io.Reader, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"}, args...)...)
	cmd.Dir, cmd.Stdin = string(r), stdin
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_CONFIG_SYSTEM=/dev/null/none", "GIT_EDITOR=true")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return string(out), err
}

func (r repo) git(t testing.TB, args ...string) string {
	t.Helper()
	out, err := r.try(nil, args...)
	must.OK(t, err)
	return out
}

// sources is the repository that this file is in.
func sources(t testing.TB) repo {
	out, err := repo(".").try(nil, "rev-parse", "--show-toplevel")
	if err != nil {
		t.Skip("these sources are in no git repository")
	}
	return repo(strings.TrimSpace(out))
}

// A change is what a commit did to a file.
type change struct {
	status   byte // A, M, D or R
	from, to string
	exec     bool
	blob     string
}

// history is some commits of a repository, the oldest first.
type history struct {
	repo    repo
	commits []string
	changes [][]change
	blobs   map[string][]byte
}

// read reads the changes of commits, each compared with its first parent.
func (r repo) read(t testing.TB, commits []string, renames string, paths ...string) *history {
	h := &history{repo: r, blobs: map[string][]byte{}}
	var ids []string
	for _, c := range commits {
		fields := strings.Split(r.git(t, append([]string{"diff-tree", "-r", "-z", renames, "--no-commit-id", "--root", c, "--"}, paths...)...), "\x00")
		var all []change
		for i := 0; i+1 < len(fields); i += 2 {
			f := strings.Fields(fields[i]) // :mode mode blob blob status
			x := change{status: f[4][0], from: fields[i+1], to: fields[i+1], exec: f[1] == "100755", blob: f[3]}
			if x.status == 'R' {
				i++
				x.to = fields[i+1]
			}
			if f[1] != "100644" && f[1] != "100755" && x.status != 'D' {
				continue
			}
			all = append(all, x)
			ids = append(ids, x.blob)
		}
		// A file may take the place of a directory.
		slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(deletes(b), deletes(a)) })
		h.commits, h.changes = append(h.commits, c), append(h.changes, all)
	}
	h.load(t, ids)
	return h
}

func deletes(c change) int {
	if c.status == 'D' {
		return 1
	}
	return 0
}

// load reads blobs.
func (h *history) load(t testing.TB, ids []string) {
	out, err := h.repo.try(strings.NewReader(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch")
	must.OK(t, err)
	in := bufio.NewReader(strings.NewReader(out))
	for range ids {
		line, err := in.ReadString('\n')
		must.OK(t, err)
		f := strings.Fields(line)
		if len(f) < 3 {
			continue // of a deletion
		}
		var n int
		fmt.Sscan(f[2], &n)
		b := make([]byte, n+1)
		_, err = io.ReadFull(in, b)
		must.OK(t, err)
		h.blobs[f[0]] = b[:n]
	}
}

// start are the files that the first commit of a history finds, of those that it changes.
func (h *history) start(t testing.TB) []change {
	names := map[string]bool{}
	for _, all := range h.changes {
		for _, c := range all {
			names[c.from], names[c.to] = true, true
		}
	}
	args := append([]string{"ls-tree", "-r", "-z", h.commits[0] + "^", "--"}, slices.Sorted(maps.Keys(names))...)
	var out []change
	var ids []string
	for line := range strings.SplitSeq(h.repo.git(t, args...), "\x00") {
		info, name, ok := strings.Cut(line, "\t")
		if f := strings.Fields(info); ok && f[1] == "blob" && f[0] != "120000" {
			out = append(out, change{'A', name, name, f[0] == "100755", f[2]})
			ids = append(ids, f[2])
		}
	}
	h.load(t, ids)
	return out
}

// stream is a commit for git fast-import.
func (h *history) stream(w io.Writer, n int, all []change) {
	fmt.Fprintf(w, "commit refs/heads/main\nmark :%d\ncommitter a <a@b> %d +0000\ndata 1\nx\n", n, n)
	for _, c := range all {
		if c.status == 'R' {
			fmt.Fprintf(w, "R %s %s\n", c.from, c.to)
		}
		if c.status == 'D' {
			fmt.Fprintf(w, "D %s\n", c.from)
			continue
		}
		mode := "100644"
		if c.exec {
			mode = "100755"
		}
		fmt.Fprintf(w, "M %s inline %s\ndata %d\n%s\n", mode, c.to, len(h.blobs[c.blob]), h.blobs[c.blob])
	}
}

// replay makes the changes of a commit in a workspace.
func (e editor) replay(t testing.TB, h *history, all []change) {
	f := e.forest()
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	for _, c := range all {
		if c.status != 'D' {
			e.mkdirs(t, path.Dir(c.to))
		}
		dir, name, err := e.dir(c.from)
		must(err)
		switch c.status {
		case 'D':
			_, err = f.Unlink(dir, name)
			must(err)
			for up := path.Dir(c.from); up != "."; up = path.Dir(up) {
				dir, name, err := e.dir(up)
				must(err)
				if _, err := f.Rmdir(dir, name); err != nil {
					break
				}
			}
			continue
		case 'R':
			to, toName, err := e.dir(c.to)
			must(err)
			_, err = f.Rename(dir, name, to, toName, 0, actors.Caller{})
			must(err)
		}
		dir, name, err = e.dir(c.to)
		must(err)
		a, err := f.Lookup(dir, name)
		if err != nil {
			a, err = f.Create(dir, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
			must(err)
		}
		mode, none := uint32(unix.S_IFREG|0o644), int64(0)
		if c.exec {
			mode |= 0o111
		}
		_, err = f.SetAttr(a.ID, live.SetAttr{Size: &none, Mode: &mode})
		must(err)
		_, err = f.Write(a.ID, h.blobs[c.blob], 0, false)
		must(err)
	}
}

func (e editor) mkdirs(t testing.TB, dir string) {
	if dir == "." {
		return
	}
	e.mkdirs(t, path.Dir(dir))
	at, name, err := e.dir(dir)
	if err == nil {
		_, err = e.forest().Create(at, name, live.NewNode{Mode: unix.S_IFDIR | 0o755})
	}
	if err != nil && !errors.Is(err, errs.Exist) {
		t.Fatal(err)
	}
}

// files are the regular files of a workspace: mode and contents.
func (e editor) files(t testing.TB) map[string]string {
	out := map[string]string{}
	st, err := e.w.State()
	if err == nil {
		err = st.Walk(context.Background(), e.s.Source(), tree.WalkOptions{}, func(at *tree.Path, n *tree.Inode) error {
			if n.IsRegular() {
				b := make([]byte, n.Size())
				if _, err := n.Content.ReadAt(e.s.Source().Files, b, 0); err != nil {
					return err
				}
				out[at.String()] = fmt.Sprintf("%v %s", n.Mode&0o100 != 0, b)
			}
			return nil
		})
	}
	must.OK(t, err)
	return out
}

// TestUndoByAgainstGit plays commits of a real history by three actors, and compares an undo
// of one of them with `git revert` of its commits.
func TestUndoByAgainstGit(t *testing.T) {
	histories := 25
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		histories = 300 // of some the choice of commits is too small
	}
	from := sources(t)
	commits := strings.Fields(from.git(t, "rev-list", "--first-parent", "--reverse", "HEAD"))
	if len(commits) < 1000 {
		t.Skip("the history is too short")
	}
	commits = commits[:1000] // no later commit chooses others
	s, err := snapshot.Open(t.TempDir(), snapshot.Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	rnd := rand.New(rand.NewPCG(7, 28))
	clean, conflicts := 0, 0
	for n := range histories {
		at := 1 + rnd.IntN(len(commits)-16)
		// Commits that have something to do with each other: those of a part of the history
		// that touch the files of one of them.
		seed := from.read(t, commits[at:at+1], "--no-renames")
		var paths []string
		for _, c := range seed.changes[0] {
			paths = append(paths, c.to)
		}
		if len(paths) == 0 || len(paths) > 60 {
			continue
		}
		args := append([]string{"rev-list", "--first-parent", "--reverse", fmt.Sprintf("%s~1..%s", commits[at], commits[min(at+200, len(commits)-1)]), "--"}, paths...)
		touching := strings.Fields(from.git(t, args...))
		h := from.read(t, touching[:min(len(touching), 3+rnd.IntN(9))], []string{"--no-renames", "-M"}[n%2], paths...)
		if len(h.commits) < 3 {
			continue
		}
		e := editor{s: s, w: s.Main(), actor: "a"}
		name := fmt.Sprint("h", n)
		e.forkAs(t, name)
		r := repo(t.TempDir())
		r.git(t, "init", "-q", "-b", "main")
		var stream bytes.Buffer
		first := h.start(t)
		h.stream(&stream, 1, first)
		e.actor = "start"
		e.replay(t, h, first)
		e.captureAs(t, "start")
		var mine []int
		for i, all := range h.changes {
			h.stream(&stream, i+2, all)
			e.actor = []string{"a", "b", "c"}[rnd.IntN(3)]
			if e.actor == "a" {
				mine = append(mine, i+2)
			}
			e.replay(t, h, all)
			e.captureAs(t, fmt.Sprint("s", i))
		}
		marks := path.Join(string(r), "marks")
		_, err = r.try(&stream, "fast-import", "--quiet", "--export-marks="+marks)
		must.OK(t, err)
		r.git(t, "reset", "-q", "--hard", "main")
		b, err := os.ReadFile(marks)
		must.OK(t, err)
		ids := map[string]string{}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			ids[f[0]] = f[1]
		}
		var refused []string
		for _, i := range slices.Backward(mine) {
			if _, err := r.try(nil, "revert", "--no-edit", ids[fmt.Sprintf(":%d", i)]); err != nil {
				refused = strings.Fields(r.git(t, "diff", "--name-only", "--diff-filter=U"))
				if len(refused) > 0 {
					break
				}
				r.git(t, "commit", "--allow-empty", "-qm", "nothing to revert")
			}
		}
		done, err := e.w.Snapshots().UndoBy(context.Background(), snapshot.UndoByOptions{Actor: "a", Merge: diff.Merger{}.Merge})
		what := fmt.Sprintf("history %d, %d commits from %.10s on, %v by a", n, len(h.commits), h.commits[0], mine)
		switch {
		case errors.Is(err, threeway.ErrConflict):
			conflicts++
			for _, p := range refused {
				if !slices.Contains(done.Conflicts, p) {
					t.Errorf("%s: git has a conflict in %s, not in %v", what, p, done.Conflicts)
				}
			}
			if len(refused) == 0 {
				t.Errorf("%s: conflicts in %v, that git does not have", what, done.Conflicts)
			}
		case len(mine) == 0:
		case err != nil:
			t.Fatal(err)
		case len(refused) > 0:
			t.Errorf("%s: git has conflicts in %v", what, refused)
		default:
			clean++
			want := map[string]string{}
			for line := range strings.SplitSeq(r.git(t, "ls-files", "-s", "-z"), "\x00") {
				info, p, ok := strings.Cut(line, "\t")
				if ok {
					b, err := os.ReadFile(path.Join(string(r), p))
					must.OK(t, err)
					want[p] = fmt.Sprintf("%v %s", strings.HasPrefix(info, "100755"), b)
				}
			}
			got := e.files(t)
			for p := range union(got, want) {
				if got[p] != want[p] {
					t.Errorf("%s: %s differs: %d bytes, git has %d", what, p, len(got[p]), len(want[p]))
				}
			}
		}
		must.OK(t, s.Main().Forks().Discard(name, actors.Caller{}))
	}
	t.Logf("%d clean, %d with conflicts", clean, conflicts)
}

func (e *editor) forkAs(t testing.TB, name string) {
	w, err := e.s.Main().Forks().New(snapshot.ForkOptions{Name: name})
	must.OK(t, err)
	e.w = w
}

func (e editor) captureAs(t testing.TB, name string) {
	_, err := e.w.Capture(snapshot.CaptureOptions{Name: name})
	must.OK(t, err)
}
