package hostile_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/amberfs/amberfs/tests/harness"
)

// acts is what a terminal does something with: C0, C1, and what changes the direction
// of writing.
var acts = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{202a}-\x{202e}\x{2066}-\x{2069}\x{2028}]`)

var evil = []string{"esc\x1b]0;title\x07", "c1\u009b31m", "bidi\u202eabc\u2066", "invalid\xff", "cr\rover", "del\x7f"}

// forTerminals makes files and snapshots whose texts a terminal would act on.
func forTerminals(t *testing.T, ws string) {
	t.Helper()
	for _, name := range evil {
		must(t, os.WriteFile(filepath.Join(ws, name), []byte(name), 0o644))
	}
	request, err := json.Marshal(map[string]any{"name": "v", "message": evil[0] + evil[1] + evil[2], "labels": map[string]string{evil[0]: evil[2]}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(ws, ".snapshots/create"), request, 0o644))
	must(t, os.WriteFile(filepath.Join(ws, ".snapshots/create"), []byte("w raw "+evil[0]+evil[3]+"\n"), 0o644))
}

// TestTextForTerminals: names, messages and labels that a program chose do nothing to
// the terminal of their reader.
func TestTextForTerminals(t *testing.T) {
	m := harness.New(t)
	forTerminals(t, m.Dir)
	must(t, os.Mkdir(m.Path(".forks", "f"), 0o755))
	for _, dir := range []string{m.Dir, m.Path(".forks", "f")} {
		for _, name := range evil {
			must(t, os.WriteFile(dir+"/"+name, []byte(dir), 0o644))
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
		must(t, err)
		shown(name, out)
	}
}
