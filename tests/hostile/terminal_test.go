package hostile_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// acts is what a terminal does something with: C0, C1, and what changes the direction
// of writing.
var acts = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{202a}-\x{202e}\x{2066}-\x{2069}\x{2028}]`)

var evil = []string{"esc\x1b]0;title\x07", "c1\u009b31m", "bidi\u202eabc\u2066", "invalid\xff", "cr\rover", "del\x7f"}

// forTerminals makes files and snapshots whose texts a terminal would act on.
func forTerminals(t *testing.T, ws string) {
	t.Helper()
	for _, name := range evil {
		must.OK(t, os.WriteFile(filepath.Join(ws, name), []byte(name), 0o644))
	}
	request, err := json.Marshal(map[string]any{"name": "v", "message": evil[0] + evil[1] + evil[2], "labels": map[string]string{evil[0]: evil[2]}})
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(ws, ".snapshots/create"), request, 0o644))
	must.OK(t, os.WriteFile(filepath.Join(ws, ".snapshots/create"), []byte("w raw "+evil[0]+evil[3]+"\n"), 0o644))
}

// TestTextForTerminals: names, messages and labels that a program chose do nothing to
// the terminal of their reader.
func TestTextForTerminals(t *testing.T) {
	m := harness.New(t)
	forTerminals(t, m.Dir)
	must.OK(t, os.Mkdir(m.Path(".forks", "f"), 0o755))
	for _, dir := range []string{m.Dir, m.Path(".forks", "f")} {
		for _, name := range evil {
			must.OK(t, os.WriteFile(dir+"/"+name, []byte(dir), 0o644))
		}
	}
	commands := [][]string{
		{"list"}, {"list", "--long"}, {"show", "v"}, {"show", "w", "--json"}, {"log"}, {"log", "--json"}, {"history", m.Path(evil[0])},
		{"diff", "v", "--stat"}, {"diff", "v", "--name-status"}, {"restore", "v", "--dry-run"}, {"promote", "f"}, {"__complete", "show", ""},
		{"show", evil[0]}, {"restore", "v", evil[2] + evil[0]}, {"fork", evil[1]}, {"import", "/none" + evil[0]},
	}
	shown := func(what string, out []byte) {
		t.Helper()
		if bad := acts.Find(out); bad != nil || !utf8.Valid(out) {
			t.Errorf("%s prints %q: %q", what, bad, out)
		}
	}
	for _, args := range commands {
		cmd := exec.Command(harness.Binary(t), append([]string{"-C", m.Dir}, args...)...)
		cmd.Dir = m.Dir
		out, _ := cmd.CombinedOutput() // some are refused
		shown("amberfs "+args[0], out)
	}
	for _, name := range []string{"list", "log", "info@v", "info@w", "create", "stat@v"} {
		out, err := os.ReadFile(m.Path(".snapshots", name))
		must.OK(t, err)
		shown(name, out)
	}
}

// onTerminal runs a command with a terminal of its own, and returns what appears there.
func onTerminal(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	spawn := "import pty, sys, os; os.environ['PATH'] = os.environ.get('PATH_OF_COMMAND', os.environ['PATH']); sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
	cmd := exec.Command("python3", append([]string{"-c", spawn, harness.Binary(t), "-C", dir}, args...)...)
	cmd.Env = append(append(os.Environ(), "TERM=xterm", "NO_COLOR="), env...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader("stop\n") // the answer to a question
	out, err := cmd.CombinedOutput()
	return strings.ReplaceAll(string(out), "\r\n", "\n"), err
}

var styles = regexp.MustCompile("\x1b\\[(1|3[126])?m")

// TestTerminals: on a terminal no command, with or without a pager, prints what that acts on, but for
// its own styles.
func TestTerminals(t *testing.T) {
	m := harness.New(t)
	forTerminals(t, m.Dir)
	must.OK(t, os.Mkdir(m.Path(".forks", "f"), 0o755))
	for _, name := range evil {
		must.OK(t, os.WriteFile(m.Path(name), []byte(name+"\nmore\n"+name), 0o644))
		must.OK(t, os.WriteFile(m.Path(".forks", "f", name), []byte("fork"), 0o644))
	}
	must.OK(t, os.Mkdir(m.Path(".snapshots", "x"), 0o755))
	commands := [][]string{
		{"list"}, {"list", "--long"}, {"show", "v"}, {"show", "w", "--json"}, {"log"}, {"log", "--json"}, {"history", m.Path(evil[0])},
		{"diff", "v"}, {"diff", "v", "--stat"}, {"diff", "v", "--name-status"}, {"diff", "--fork", "f"}, {"restore", "v", "--dry-run"}, {"forks"},
		{"merge", "f"}, {"merge", "f", "--dry-run", "--ours"}, {"show", evil[0]}, {"fork", evil[1]}, {"import", "/none" + evil[0]}, {"du"}, {"status"}, {"actors"},
		{"apply", "--dry-run", t.TempDir()}, {"revert", m.Path(evil[0])}, {"undo", "--dry-run"}, {"explore", "1", "--", "cat", evil[0]},
		{"verify", m.Store}, {evil[0]}, {"list", "--" + evil[0]},
	}
	for _, name := range evil {
		commands = append(commands, []string{"blame", m.Path(name)})
	}
	for _, args := range commands {
		pagers := []string{""}
		if slices.Contains([]string{"list", "diff", "blame", "log"}, args[0]) {
			pagers = append(pagers, "cat -")
		}
		for _, pager := range pagers {
			out, _ := onTerminal(t, m.Dir, []string{"AMBERFS_PAGER=" + pager}, args...) // some are refused
			out = styles.ReplaceAllString(out, "")
			for _, mine := range []string{"\x1b[A", "\x1b[K"} {
				if args[0] == "explore" {
					out = strings.ReplaceAll(out, mine, "")
				}
			}
			if bad := acts.FindString(out); bad != "" || !utf8.ValidString(out) || out == "" {
				t.Errorf("amberfs %q with the pager %q prints %q: %q", args, pager, bad, out)
			}
		}
	}
}

// TestPagers: what a command prints appears, also where the pager does not exist or fails.
func TestPagers(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path(".snapshots", "v-first"), 0o755))
	for name, env := range map[string][]string{
		"no less":        {"PATH_OF_COMMAND=" + t.TempDir(), "AMBERFS_PAGER=less"},
		"no such pager":  {"AMBERFS_PAGER=no-such-pager -x"},
		"it fails":       {"AMBERFS_PAGER=exit 3"},
		"it is killed":   {"AMBERFS_PAGER=kill -9 $$"},
		"none":           {"AMBERFS_PAGER="},
		"one that works": {"AMBERFS_PAGER=cat -"},
		"reads and ends": {"AMBERFS_PAGER=cat; exit 1"},
	} {
		out, err := onTerminal(t, m.Dir, env, "list")
		if err != nil || strings.Count(out, "v-first") != 1 {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
}
