// Package cli_test runs the scripts in testdata: terminal sessions, with what
// they print and the exit status they end with. Together they cover the
// interface: files_*.txtar through plain file I/O, cmd_*.txtar through the
// command line, lang_*.txtar from programs that only know files.
//
// On top of testscript's own commands a script has
//
//	$ COMMAND LINE      one line for bash, as typed (double quotes only)
//	status N            the exit status of the last $ line
//	eventually COMMAND  a $ line repeated until it succeeds
//	tree DIR FILE       writes all that is visible of a tree to FILE, for cmp
//	kill9 MOUNTPOINT    kills the daemon of a mount, and leaves the mount
//
// and the conditions [root], [user], [linux:6.16], that version or a newer one, and
// [ids]: a user with subordinate ids.
package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/amberfs/amberfs/tests/harness"
)

type runner struct{ m *testing.M }

func (r runner) Run() int { return harness.Run(r.m) }

func TestMain(m *testing.M) {
	testscript.Main(runner{m}, map[string]func(){"gofiles": gofiles})
}

// last is what a script's newest $ line ended with.
type last struct{ status int }

func TestScripts(t *testing.T) {
	bin := harness.Binary(t)
	params := testscript.Params{
		Dir:                "testdata",
		RequireUniqueNames: true,
		Setup:              func(env *testscript.Env) error { return setup(env, bin) },
		Condition:          condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"$":          shell,
			"status":     status,
			"eventually": eventually,
			"tree":       tree,
			"kill9":      kill9,
		},
	}
	testscript.Run(t, params)
}

func setup(env *testscript.Env, bin string) error {
	env.Setenv("PATH", filepath.Dir(bin)+":"+env.Getenv("PATH")+":/usr/sbin:/sbin")
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("LC_ALL", "C")
	env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	env.Setenv("GIT_AUTHOR_NAME", "A")
	env.Setenv("GIT_AUTHOR_EMAIL", "a@example.com")
	env.Setenv("GIT_COMMITTER_NAME", "A")
	env.Setenv("GIT_COMMITTER_EMAIL", "a@example.com")
	// A race detector in a daemon or a command reports into files beside.
	env.Setenv("GORACE", os.Getenv("GORACE")+" log_path="+filepath.Join(env.WorkDir, "race"))
	env.Values[last{}] = new(last)
	work, err := filepath.EvalSymlinks(env.WorkDir)
	if err != nil {
		return err
	}
	env.Defer(func() { leftBehind(env.T(), bin, work) })
	return nil
}

// leftBehind unmounts what a script has mounted and fails it when a daemon
// does not end.
func leftBehind(t testscript.T, bin, work string) {
	for _, dir := range harness.Mounts(work) {
		if out, err := exec.Command(bin, "umount", dir).CombinedOutput(); err != nil {
			t.Log(fmt.Sprintf("unmounting %s: %v\n%s", dir, err, out))
			_ = exec.Command("fusermount3", "-u", "-z", dir).Run()
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	}
	harness.Poll(func() bool { return len(harness.Processes(work)) == 0 })
	for _, p := range harness.Processes(work) {
		_ = syscall.Kill(p.PID, syscall.SIGQUIT) // it shows its goroutines in its log
		readLogs(t, work)
		t.Fatal(fmt.Sprintf("left behind: %s", strings.Join(p.Args, " ")))
	}
	if left := harness.Mounts(work); len(left) > 0 {
		t.Fatal(fmt.Sprintf("left mounted: %s", strings.Join(left, " ")))
	}
	readLogs(t, work)
}

// shownLog is how much of a log is shown, in bytes: a hundred goroutines would hide the rest.
const shownLog = 12 << 10

// readLogs fails a script for what no daemon may print, and shows the logs of
// one that failed.
func readLogs(t testscript.T, work string) {
	failed := false
	if f, ok := t.(interface{ Failed() bool }); ok {
		failed = f.Failed()
	}
	races, _ := filepath.Glob(filepath.Join(work, "race.*"))
	for _, file := range races {
		report, _ := os.ReadFile(file)
		t.Log(string(report))
	}
	logs, _ := filepath.Glob(filepath.Join(work, "*", "amberfs.log"))
	ofRuns, _ := filepath.Glob(filepath.Join(work, ".local/state/amberfs/runs/*/amberfs.log"))
	logs = append(logs, ofRuns...)
	bad := len(races) > 0
	for _, file := range logs {
		log, _ := os.ReadFile(file)
		for _, word := range []string{"DATA RACE", "panic:", "fatal error:"} {
			if bytes.Contains(log, []byte(word)) {
				bad = true
			}
		}
		if failed || bad {
			t.Log(fmt.Sprintf("%s:\n%s", file, log[:min(len(log), shownLog)]))
		}
	}
	if bad && !failed {
		t.Fatal("a daemon or a command went wrong: see above")
	}
}

func condition(cond string) (bool, error) {
	switch cond {
	case "root":
		return os.Getuid() == 0, nil
	case "user":
		return os.Getuid() != 0, nil
	case "ids":
		u, err := user.Current()
		if err != nil {
			return false, err
		}
		ids, err := os.ReadFile("/etc/subuid")
		return os.Getuid() != 0 && err == nil && bytes.Contains(append([]byte("\n"), ids...), []byte("\n"+u.Username+":")), nil
	}
	var major, minor int
	if _, err := fmt.Sscanf(cond, "linux:%d.%d", &major, &minor); err == nil {
		return harness.LinuxAtLeast(major, minor), nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

// shell runs a line with bash. testscript has taken it apart into words already;
// put together again it is the line, unless it had single quotes.
func shell(ts *testscript.TestScript, neg bool, args []string) {
	limit := strconv.Itoa(int(harness.Timeout.Seconds()))
	err := ts.Exec("timeout", "-k", "5", limit, "bash", "-c", strings.Join(args, " "))
	l := ts.Value(last{}).(*last)
	l.status = 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		l.status = exit.ExitCode()
	case err != nil:
		ts.Fatalf("bash: %v", err)
	}
	if l.status == timedOut {
		showHung(ts)
	}
	if neg && err == nil {
		ts.Fatalf("the command succeeded")
	}
	if !neg && err != nil {
		ts.Fatalf("exit status %d", l.status)
	}
}

// timedOut is the status of timeout(1).
const timedOut = 124

// showHung ends the daemons of a script: they show what their goroutines do in their logs.
func showHung(ts *testscript.TestScript) {
	for _, p := range harness.Processes(ts.MkAbs(".")) {
		_ = syscall.Kill(p.PID, syscall.SIGQUIT)
	}
}

func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: status N")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := ts.Value(last{}).(*last).status; got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	line := strings.Join(args, " ")
	if !harness.Poll(func() bool { return (ts.Exec("timeout", "-k", "5", "60", "bash", "-c", line) == nil) != neg }) {
		showHung(ts)
		ts.Fatalf("gave up after %v", harness.Timeout)
	}
}

// tree writes one line a path: see harness.Tree.
func tree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tree DIR FILE")
	}
	t, err := harness.WalkTree(ts.MkAbs(args[0]))
	ts.Check(err)
	var b bytes.Buffer
	var paths []string
	for path := range t {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		fmt.Fprintf(&b, "%q %s\n", path, t[path])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b.Bytes(), 0o644))
}

func kill9(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: kill9 MOUNTPOINT")
	}
	dir := ts.MkAbs(args[0])
	if len(harness.Processes(dir)) == 0 {
		ts.Fatalf("no daemon has %s mounted", dir)
	}
	if !harness.KillAll(dir) {
		ts.Fatalf("the daemon of %s does not die", dir)
	}
}
