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

// scratch has the state of the whole test process: the directory dir with the stores and mount points of every
// [Mount], and the path of the binary.
var scratch struct {
	once sync.Once
	dir  string
	bin  string
	err  error
}

// raceOptions is the value of GORACE for the binary, unless the environment has one.
const raceOptions = "atexit_sleep_ms=20"

// Binary returns the path of the amberfs binary. It builds the binary once, unless AMBERFS_TEST_BIN has the path of
// one.
func Binary(t testing.TB) string {
	t.Helper()
	must.OK(t, prepareProcess())
	must.OK(t, statSources())
	return scratch.bin
}

// prepareProcess fills scratch, once in a test process.
func prepareProcess() error {
	scratch.once.Do(func() {
		scratch.dir, scratch.err = os.MkdirTemp("", "amberfs-")
		if scratch.err != nil {
			return
		}
		// Tests of permissions use their mounts as other users.
		if scratch.err = os.Chmod(scratch.dir, 0o711); scratch.err != nil {
			return
		}
		// Run compares paths with those in /proc/self/mountinfo, which have no symlinks.
		scratch.dir, scratch.err = filepath.EvalSymlinks(scratch.dir)
		if scratch.err != nil {
			return
		}
		// The answers that tests give must not be stored in the state of the user who runs the tests.
		if scratch.err = os.Setenv("XDG_STATE_HOME", filepath.Join(scratch.dir, "state")); scratch.err != nil {
			return
		}
		// A binary with the race detector sleeps for a second before it ends, to find races at its end. This is too
		// long for thousands of short commands.
		if os.Getenv("GORACE") == "" {
			scratch.err = os.Setenv("GORACE", raceOptions)
		}
		if scratch.bin = os.Getenv("AMBERFS_TEST_BIN"); scratch.bin == "" {
			scratch.bin, scratch.err = buildBinary(scratch.dir, "")
		}
	})
	return scratch.err
}

// TaggedBinary returns the path of a binary with a build tag. It builds the binary once for all tests of a package.
func TaggedBinary(t testing.TB, tag string) string {
	t.Helper()
	Binary(t)
	bin := filepath.Join(scratch.dir, tag, "bin", "amberfs")
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	bin, err := buildBinary(filepath.Join(scratch.dir, tag), tag)
	must.OK(t, err)
	return bin
}

// buildBinary builds the binary in its own module, because the go.sum files of the drivers' modules do not have all
// dependencies of it.
func buildBinary(dir, tag string) (string, error) {
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

// statSources calls stat(2) once for every file of this repository that child processes of the test read or compile.
// Go's test cache records only files that the test process itself opened or examined. Without these calls, Go would
// reuse the cached result of a test although the daemon has changed.
var statSources = sync.OnceValue(func() error {
	root, err := ModuleRoot()
	if err != nil || root == "" {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && isUnrelated(root, path):
			return filepath.SkipDir
		case d.Type().IsRegular():
			_, err = os.Stat(path)
		}
		return err
	})
})

// isUnrelated reports whether tests do not depend on the files below a directory: the git directory, built files, and
// the workspace that `make run` mounts.
func isUnrelated(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err != nil || slices.Contains([]string{".git", ".run", "bin", "dist", "ws"}, rel)
}

// ModuleRoot returns the directory of go.mod, or "" if the test binary runs outside of a module.
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

// A Runner has the method of [testing.M] that [Run] calls.
type Runner interface{ Run() int }

// Run runs the tests of a package and returns the exit code. The code is not 0 if a test failed, or left a mount or a
// daemon.
func Run(m Runner) int {
	if seed, err := strconv.ParseUint(os.Getenv(rewriteSeed), 10, 64); err == nil {
		RewriteTree(".", seed)
		return 0
	}
	if err := prepareProcess(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	for _, dir := range Mounts(scratch.dir) {
		fmt.Fprintf(os.Stderr, "left behind: a mount at %s\n", dir)
		detachMount(dir)
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
