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

// rewriteSeed is the environment variable with the seed for a test program that only calls RewriteTree in its working
// directory.
const rewriteSeed = "AMBERFS_TEST_REWRITE"

// RewriteDirs are the names of the directories that RewriteTree creates.
var RewriteDirs = strings.Fields("d0 d1 d2 d3 d4 d5 d6 d7 d8 d9")

// rewriteSlots is the number of names that RewriteTree changes.
const rewriteSlots = 60

// RewriteTree creates, replaces, changes and removes files, directories and links below a directory. Equal directories
// and seeds have equal results. Some of the calls fail.
func RewriteTree(dir string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for _, d := range RewriteDirs {
		_ = os.Mkdir(filepath.Join(dir, d), 0o755)
	}
	slot := func(i int) string { return filepath.Join(dir, RewriteDirs[i%len(RewriteDirs)], fmt.Sprint("s", i)) }
	// Either names or modes change: a file that changes both has the new name and the old mode for a moment.
	moves := seed%2 == 0
	for i := range rewriteSlots {
		path, other, k := slot(i), slot(r.IntN(rewriteSlots)), r.IntN(9)
		data := make([]byte, r.IntN(3)*r.IntN(30_000))
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		mode := []uint32{0o644, 0o600, 0o755}[r.IntN(3)]
		switch {
		case k < 2:
		case k < 4:
			_ = os.WriteFile(path, data, 0o644)
		case k < 5:
			_ = os.RemoveAll(path)
		case k < 6:
			_ = os.RemoveAll(path)
			_ = os.Symlink(fmt.Sprint("s", r.IntN(rewriteSlots)), path)
		case k < 7:
			_ = os.RemoveAll(path)
			_ = os.MkdirAll(filepath.Join(path, "below"), 0o755)
			_ = os.WriteFile(filepath.Join(path, "f"), data, 0o644)
			_ = os.WriteFile(filepath.Join(path, "below", "g"), data, 0o600)
		case !moves:
			_ = unix.Fchmodat(unix.AT_FDCWD, path, mode, 0)
		case k < 8:
			_ = os.Rename(path, other)
		default:
			_ = os.Link(path, other)
		}
	}
}

// RewriteInRun calls RewriteTree in a run of the directory dir. The run is stored below root.
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

// ApplyRun returns a command that applies a run, which is stored below root, to the directory dir.
func ApplyRun(t testing.TB, root, dir, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(Binary(t), "-C", dir, "apply", "--run", name, "--yes")
	cmd.Env = append(os.Environ(), "AMBERFS_RUNS="+root)
	return cmd
}

// CountOldAndNew compares each path of a tree with an old and a new state of the tree, before and after. It returns
// how many paths changed between the two and are as before (olds) or as after (news), and descriptions of the paths
// that are neither. It ignores times and the numbers of names of files.
func CountOldAndNew(before, after, got Tree) (neither []string, olds, news int) {
	all := map[string]bool{}
	for _, tree := range []Tree{before, after, got} {
		for p := range tree {
			all[p] = true
		}
	}
	for p := range all {
		switch b, a, g := withoutVolatile(before[p]), withoutVolatile(after[p]), withoutVolatile(got[p]); {
		case b == a && g == b:
		case g == b:
			olds++
		case g == a:
			news++
		default:
			neither = append(neither, fmt.Sprintf("%q is %q, was %q, is to be %q", p, g, b, a))
		}
	}
	return neither, olds, news
}

var mtimeField = regexp.MustCompile(` mtime=-?\d+\.\d+`)

// ReadTreeWithoutTimes is ReadTree without mtimes.
func ReadTreeWithoutTimes(t testing.TB, dir string) Tree {
	t.Helper()
	tree := ReadTree(t, dir)
	for p, line := range tree {
		tree[p] = mtimeField.ReplaceAllString(line, "")
	}
	return tree
}

var volatileFields = regexp.MustCompile(` (mtime|nlink|same)=\S+`)

// withoutVolatile returns a line of a Tree without the mtime and without the fields that depend on other names of the
// file.
func withoutVolatile(line string) string { return volatileFields.ReplaceAllString(line, "") }
