package examples_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

var sandboxLine = regexp.MustCompile(`(?s)amberfs run --from \. -- bwrap .*?-- COMMAND\n`)

// words takes the ends of lines and their indents for blanks.
func words(line string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(line, "\\\n", " ")), " ")
}

// TestRunInBubblewrap: what runs in the line that the help gives sees the workspace and
// nothing else. Without it, run gives no rights by
// set-user-ID programs.
func TestRunInBubblewrap(t *testing.T) {
	harness.SkipWithout(t, "bwrap")
	line := words(sandboxLine.FindString(run(t, "/", harness.Binary(t), "help", "run")))
	if line == "" {
		t.Fatal("the help has no such line")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "mine\n")
	if out, err := command(t, dir, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").CombinedOutput(); err != nil {
		t.Skipf("bubblewrap does not work here: %v: %s", err, out)
	}
	script := "cat f; echo changed > f; mkdir .snapshots/inside; ls /; ls " + dir + " || :; grep NoNewPrivs /proc/self/status"
	out := run(t, dir, "sh", "-ec", strings.Replace(line, "COMMAND", "sh -ec '"+script+"'", 1)+" 2>&1")
	for _, want := range []string{"mine\n", "work\n", "No such file", "NoNewPrivs:\t1"} {
		if !strings.Contains(out, want) {
			t.Errorf("it prints %q, without %q", out, want)
		}
	}
	for _, name := range []string{"etc\n", "home\n", "root\n"} {
		if strings.Contains(out, name) {
			t.Errorf("it sees %q", out)
		}
	}
	wantFile(t, filepath.Join(dir, "f"), "mine\n")

	m := harness.New(t)
	for _, of := range []*exec.Cmd{
		command(t, dir, harness.Binary(t), "run", "--from", ".", "--", "grep", "NoNewPrivs", "/proc/self/status"),
		command(t, m.Dir, harness.Binary(t), "run", "--fork", "x", "--", "grep", "NoNewPrivs", "/proc/self/status"),
	} {
		if out, err := of.Output(); err != nil || string(out) != "NoNewPrivs:\t1\n" {
			t.Errorf("%v: %v, %q", of.Args, err, out)
		}
	}
}
