package harness

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// rewriteSeed is set for a test program that is to call Rewrite in its working directory.
const rewriteSeed = "AMBERFS_TEST_REWRITE"

// RewriteDirs are the directories that Rewrite leaves there.
var RewriteDirs = strings.Fields("d0 d1 d2 d3 d4 d5 d6 d7 d8 d9")

const rewriteSlots = 60

// Rewrite makes, replaces, changes and removes files, directories and links below a directory,
// as the seed says. Some of the calls fail, and do so in each equal directory.
func Rewrite(dir string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for _, d := range RewriteDirs {
		_ = os.Mkdir(filepath.Join(dir, d), 0o755)
	}
	slot := func(i int) string { return filepath.Join(dir, RewriteDirs[i%len(RewriteDirs)], fmt.Sprint("s", i)) }
	// A file that moves and gets another mode has, for a moment, the new name and the old mode.
	moves := seed%2 == 0
	for i := range rewriteSlots {
		at, other, k := slot(i), slot(r.IntN(rewriteSlots)), r.IntN(9)
		data := make([]byte, r.IntN(3)*r.IntN(30_000))
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		mode := []uint32{0o644, 0o600, 0o755}[r.IntN(3)]
		switch {
		case k < 2:
		case k < 4:
			_ = os.WriteFile(at, data, 0o644)
		case k < 5:
			_ = os.RemoveAll(at)
		case k < 6:
			_ = os.RemoveAll(at)
			_ = os.Symlink(fmt.Sprint("s", r.IntN(rewriteSlots)), at)
		case k < 7:
			_ = os.RemoveAll(at)
			_ = os.MkdirAll(filepath.Join(at, "below"), 0o755)
			_ = os.WriteFile(filepath.Join(at, "f"), data, 0o644)
			_ = os.WriteFile(filepath.Join(at, "below", "g"), data, 0o600)
		case !moves:
			_ = unix.Fchmodat(unix.AT_FDCWD, at, mode, 0)
		case k < 8:
			_ = os.Rename(at, other)
		default:
			_ = os.Link(at, other)
		}
	}
}

// RewriteInRun calls Rewrite in a run of a directory, which is kept below root.
func RewriteInRun(t testing.TB, root, dir, name string, seed uint64) {
	t.Helper()
	self, err := os.Executable()
	must.OK(t, err)
	cmd := exec.Command(Binary(t), "run", "--from", dir, "--name", name, "--", self)
	cmd.Env = append(os.Environ(), "AMBERFS_RUNS="+root, rewriteSeed+"="+strconv.FormatUint(seed, 10))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("a run of %s: %v\n%s", dir, err, out)
	}
}

// ApplyRun is the command that applies a run below root to its directory.
func ApplyRun(t testing.TB, root, dir, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(Binary(t), "-C", dir, "apply", "--run", name, "--yes")
	cmd.Env = append(os.Environ(), "AMBERFS_RUNS="+root)
	return cmd
}

// OldOrNew returns the paths of a tree that are neither as in the one nor as in the other of two
// trees. The number of names of a file, and times, may be others.
func OldOrNew(was, now, got Tree) (neither []string, olds, news int) {
	all := map[string]bool{}
	for _, tree := range []Tree{was, now, got} {
		for p := range tree {
			all[p] = true
		}
	}
	for p := range all {
		switch w, n, g := settled(was[p]), settled(now[p]), settled(got[p]); {
		case w == n && g == w:
		case g == w:
			olds++
		case g == n:
			news++
		default:
			neither = append(neither, fmt.Sprintf("%q is %q, was %q, is to be %q", p, g, w, n))
		}
	}
	return neither, olds, news
}

var mtime = regexp.MustCompile(` mtime=-?\d+\.\d+`)

// ReadTimeless is ReadTree without the times.
func ReadTimeless(t testing.TB, dir string) Tree {
	t.Helper()
	tree := ReadTree(t, dir)
	for p, line := range tree {
		tree[p] = mtime.ReplaceAllString(line, "")
	}
	return tree
}

var names = regexp.MustCompile(` (mtime|nlink|same)=\S+`)

// settled is a line of a Tree without the time and what other names of the file change.
func settled(line string) string { return names.ReplaceAllString(line, "") }
