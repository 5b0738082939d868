package harness

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// scratch holds what belongs to the whole test process: the binary, and the
// stores and mount points of every [Mount].
var scratch struct {
	once sync.Once
	dir  string
	bin  string
	err  error
}

const raceOptions = "atexit_sleep_ms=20"

// Binary returns the path of the amberfs binary, building it when the
// environment names none.
func Binary(t testing.TB) string {
	t.Helper()
	must.OK(t, prepare())
	must.OK(t, sources())
	return scratch.bin
}

func prepare() error {
	scratch.once.Do(func() {
		scratch.dir, scratch.err = os.MkdirTemp("", "amberfs-")
		if scratch.err != nil {
			return
		}
		// Tests of permissions reach their mounts as other users.
		if scratch.err = os.Chmod(scratch.dir, 0o711); scratch.err != nil {
			return
		}
		// /proc/self/mountinfo shows real paths, and the leak check compares.
		scratch.dir, scratch.err = filepath.EvalSymlinks(scratch.dir)
		if scratch.err != nil {
			return
		}
		// What a test agrees to is no business of the user's who runs it.
		if scratch.err = os.Setenv("XDG_STATE_HOME", filepath.Join(scratch.dir, "state")); scratch.err != nil {
			return
		}
		// A binary with the race detector sleeps a second before it ends, for
		// races at the very end; thousands of short commands cannot wait so.
		if os.Getenv("GORACE") == "" {
			scratch.err = os.Setenv("GORACE", raceOptions)
		}
		if scratch.bin = os.Getenv("AMBERFS_TEST_BIN"); scratch.bin == "" {
			scratch.bin, scratch.err = build(scratch.dir, "")
		}
	})
	return scratch.err
}

// Tagged builds the binary with a build tag, once for all tests of a package.
func Tagged(t testing.TB, tag string) string {
	t.Helper()
	Binary(t)
	bin := filepath.Join(scratch.dir, tag, "bin", "amberfs")
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	bin, err := build(filepath.Join(scratch.dir, tag), tag)
	must.OK(t, err)
	return bin
}

// build builds the daemon in its own module: the drivers' modules have no sums for all that it needs.
func build(dir, tag string) (string, error) {
	const module = "github.com/amberfs/amberfs"
	top, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("looking for the module of amberfs: %w", err)
	}
	bin := filepath.Join(dir, "bin", "amberfs")
	args := []string{"build", "-C", strings.TrimSpace(string(top)), "-buildvcs=false", "-tags", tag, "-o", bin}
	if race := os.Getenv("AMBERFS_TEST_RACE"); race != "" && race != "0" {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, module+"/cmd/amberfs")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building amberfs: %w\n%s", err, out)
	}
	return bin, nil
}

// sources looks once at every file of this repository from which a child of the
// test builds or reads something. Go's test cache knows only the files that the
// test itself looked at while it ran; without this, a test passes from the cache
// after the daemon has changed.
var sources = sync.OnceValue(func() error {
	root, err := ModuleRoot()
	if err != nil || root == "" {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && unrelated(root, path):
			return filepath.SkipDir
		case d.Type().IsRegular():
			_, err = os.Stat(path)
		}
		return err
	})
})

// unrelated reports whether no test depends on what is below a directory: what is
// built there, and the workspace that `make run` mounts.
func unrelated(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err != nil || slices.Contains([]string{".git", ".run", "bin", "dist", "ws"}, rel)
}

// ModuleRoot is the directory of go.mod, or "" for a test binary that runs
// elsewhere.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return "", err
}

// A Runner is what [testing.M] is for [Run].
type Runner interface{ Run() int }

// Run runs the tests of a package and returns its exit code: not 0 as well
// when the tests passed but left a mount or a daemon.
func Run(m Runner) int {
	if seed, err := strconv.ParseUint(os.Getenv(rewriteSeed), 10, 64); err == nil {
		Rewrite(".", seed)
		return 0
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	for _, dir := range Mounts(scratch.dir) {
		fmt.Fprintf(os.Stderr, "left behind: a mount at %s\n", dir)
		detach(dir)
		code = max(code, 1)
	}
	for _, p := range Processes(scratch.dir) {
		fmt.Fprintf(os.Stderr, "left behind: process %d: %s\n", p.PID, strings.Join(p.Args, " "))
		code = max(code, 1)
	}
	if err := os.RemoveAll(scratch.dir); err != nil {
		fmt.Fprintln(os.Stderr, "cleaning up:", err)
		code = max(code, 1)
	}
	return code
}
