package gitbridge

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
)

func section(text string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
}

func mergeAll(t *testing.T, files [][3]string) map[int]string {
	t.Helper()
	var in []threeway.Input
	for _, f := range files {
		in = append(in, threeway.Input{Base: section(f[0]), Ours: section(f[1]), Theirs: section(f[2])})
	}
	out := make(map[int]string)
	must.OK(t, Merger{}.Merge(context.Background(), in, func(i int, size int64, r io.Reader) error {
		data, err := io.ReadAll(r)
		if int64(len(data)) != size {
			t.Errorf("%d: %d bytes of %d", i, len(data), size)
		}
		out[i] = string(data)
		return err
	}))
	return out
}

func TestMerge(t *testing.T) {
	isolate(t)
	must.OK(t, os.MkdirAll(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "git"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "git/attributes"), []byte("* merge=union\n"), 0o644))
	got := mergeAll(t, [][3]string{
		{"a\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE"},
		{"a\n", "b\n", "c\n"},
		{"\x00a", "\x00b", "\x00c"},
		{"a\nb\n", "a\nb\n", "a\nb\nc\n"},
		{"", "a\n", "b\n"},
		{"a\nb\nc\n", "", "a\nb\nc\n"},
	})
	want := map[int]string{0: "A\nb\nc\nd\nE", 3: "a\nb\nc\n", 5: ""}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	t.Setenv("PATH", "")
	if got := mergeAll(t, [][3]string{{"a\n", "a\n", "b\n"}}); len(got) != 0 {
		t.Errorf("without git: %v", got)
	}
}

// TestMergeIsGitMerge compares with git merge in a working tree.
func TestMergeIsGitMerge(t *testing.T) {
	isolate(t)
	rounds := 12
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		rounds = 200
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	edit := func(text string) string {
		lines := strings.SplitAfter(text, "\n")
		for range 1 + rnd.IntN(3) {
			lines[rnd.IntN(len(lines))] = []string{"", "new\n", "x\ny\n"}[rnd.IntN(3)]
		}
		return strings.Join(lines, "")
	}
	for range rounds {
		var files [][3]string
		for range 30 {
			base := ""
			for i := range 5 + rnd.IntN(40) {
				base += fmt.Sprintf("%d\n", i%(1+rnd.IntN(20)))
			}
			files = append(files, [3]string{base, edit(base), edit(base)})
		}
		got := mergeAll(t, files)
		work := filepath.Join(t.TempDir(), "work")
		git(t, "/", "init", "-q", "-b", "base", work)
		for side, name := range []string{"base", "ours", "theirs"} {
			if side > 0 {
				git(t, work, "checkout", "-q", "-b", name, "base")
			}
			for i, f := range files {
				must.OK(t, os.WriteFile(filepath.Join(work, fmt.Sprint("f", i)), []byte(f[side]), 0o644))
			}
			git(t, work, "add", ".")
			git(t, work, "commit", "-q", "--allow-empty", "-m", name)
		}
		git(t, work, "checkout", "-q", "ours")
		_, _ = run(context.Background(), work, nil, nil, "merge", "-q", "--no-commit", "theirs")
		unmerged := "\n" + git(t, work, "diff", "--name-only", "--diff-filter=U") + "\n"
		for i := range files {
			text, clean := got[i]
			if conflict := strings.Contains(unmerged, fmt.Sprintf("\nf%d\n", i)); conflict == clean {
				t.Errorf("%q: clean %v, git merge says conflict %v", files[i], clean, conflict)
			} else if data, err := os.ReadFile(filepath.Join(work, fmt.Sprint("f", i))); clean && (err != nil || string(data) != text) {
				t.Errorf("%q: %q, git merge makes %q", files[i], text, data)
			}
		}
	}
}

// TestMergeOfRealHistory takes three revisions of this project's repository, of
// which the one in the middle is the base, and compares with git merge-tree.
func TestMergeOfRealHistory(t *testing.T) {
	isolate(t)
	rounds := 12
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		rounds = 200
	}
	top, err := filepath.Abs("..")
	must.OK(t, err)
	env := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}
	var revisions []string
	if _, err := os.Stat(filepath.Join(top, ".git")); err == nil {
		revisions = strings.Fields(gitEnv(t, top, env, "rev-list", "--first-parent", "HEAD"))
	}
	if len(revisions) < 1000 {
		t.Skip("this is no clone with history")
	}
	revisions = revisions[len(revisions)-1000:] // no later one chooses others
	repo := bareRepo(t)
	objects := gitEnv(t, top, env, "rev-parse", "--path-format=absolute", "--git-path", "objects")
	must.OK(t, os.WriteFile(filepath.Join(repo, "objects/info/alternates"), []byte(objects+"\n"), 0o644))
	rnd := rand.New(rand.NewPCG(3, 4))
	tried, clean := 0, 0
	for range rounds {
		at := rnd.IntN(len(revisions) - 12)
		sides := [3]string{revisions[at+5], revisions[at], revisions[at+6+rnd.IntN(6)]}
		base := git(t, repo, "commit-tree", "-m", "base", sides[0]+"^{tree}")
		ours := git(t, repo, "commit-tree", "-m", "ours", "-p", base, sides[1]+"^{tree}")
		theirs := git(t, repo, "commit-tree", "-m", "theirs", "-p", base, sides[2]+"^{tree}")
		r, err := openRepository(context.Background(), repo, trustData)
		must.OK(t, err)
		must.OK(t, r.updateRef(context.Background(), "refs/heads/ours", r.head("ours"), ours, "test"))
		must.OK(t, r.updateRef(context.Background(), "refs/heads/theirs", r.head("theirs"), theirs, "test"))
		want, conflicts, err := r.mergeTree(context.Background())
		must.OK(t, err)
		var paths []string
		var files [][3]string
		for _, p := range strings.Split(git(t, repo, "diff", "--name-only", "--no-renames", "-z", "--diff-filter=M", base, ours), "\x00") {
			if p == "" || git(t, repo, "diff", "--name-only", "--no-renames", "--diff-filter=M", base, theirs, "--", p) == "" {
				continue
			}
			paths = append(paths, p)
			files = append(files, [3]string{blobOf(t, repo, base, p), blobOf(t, repo, ours, p), blobOf(t, repo, theirs, p)})
		}
		got := mergeAll(t, files)
		for i, p := range paths {
			text, merged := got[i]
			if merged == conflicts[p] {
				t.Errorf("%v: %s: clean %v, git says conflict %v", sides, p, merged, conflicts[p])
			} else if merged && blobOf(t, repo, want, p) != text {
				t.Errorf("%v: %s merges to something else than git's", sides, p)
			}
			if tried++; merged {
				clean++
			}
		}
	}
	t.Logf("%d files, %d clean", tried, clean)
}

func (r *repository) head(name string) string {
	id, err := r.readRef(context.Background(), "refs/heads/"+name)
	if err != nil {
		return ""
	}
	return id
}

// blobOf is a file of a revision, with its last line end.
func blobOf(t *testing.T, repo, rev, path string) string {
	t.Helper()
	out, err := run(context.Background(), repo, nil, nil, "cat-file", "blob", rev+":"+path)
	must.OK(t, err)
	return string(out)
}
