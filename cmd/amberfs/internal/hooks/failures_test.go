package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/must"
)

// TestFailures: each failure is written to the log, and each reason is shown once in a session. If the log cannot be
// written, each failure is shown.
func TestFailures(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	f, now := UserFailures(), time.Now()
	for i, c := range []struct {
		agent, session, dir, why string
		warn                     bool
	}{
		{"claude", "s1", "/w", "not mounted", true},
		{"claude", "s1", "/w", "not mounted", false},
		{"claude", "s1", "/w", "no space left", true},
		{"claude", "s2", "/w", "not mounted", true},
		{"claude", "s1", "/v", "not mounted", true},
		{"gemini", "s1", "/w", "not mounted", true},
		{"claude", "", "/w\n", "x", true},
		{"claude", "", "/w\n", "x", false},
	} {
		warn, log := f.RecordFailure(c.agent, c.session, c.dir, c.why, now)
		b, err := os.ReadFile(log)
		if warn != c.warn || err != nil || strings.Count(string(b), "\n") != i+1 || !strings.HasSuffix(string(b), ": "+c.why+"\n") {
			t.Errorf("%d: warned %v; the log has %q, %v", i, warn, b, err)
		}
	}
	if _, log := f.RecordFailure("claude", "s9", "/e", "no mount at \x1b[31m\a", now); true {
		b, err := os.ReadFile(log)
		if err != nil || strings.ContainsAny(string(b), "\x1b\a") {
			t.Errorf("what a terminal acts upon is in the log: %q, %v", b, err)
		}
	}
	if warn, _ := f.RecordFailure("claude", "", "/w\n", "x", now.Add(24*time.Hour)); !warn {
		t.Error("without a session: no warning on the next day")
	}
	file := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	for range 2 {
		if warn, log := (Failures{filepath.Join(file, "x")}).RecordFailure("claude", "s1", "/w", "y", now); !warn || log != "" {
			t.Errorf("where nothing can be written: %v, %q", warn, log)
		}
	}
}

func TestLogIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	for range 5 {
		must.OK(t, appendLine(file, strings.Repeat("x", maxLogSize)+"\n"))
	}
	all, err := filepath.Glob(file + "*")
	if err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	for _, f := range all {
		if st, err := os.Stat(f); err != nil || st.Size() > 2*maxLogSize+2 {
			t.Errorf("%s: %v, %v", f, st, err)
		}
	}
}

// TestEarlierHook: an installation replaces the hook of an earlier version in its place. A removal removes it.
func TestEarlierHook(t *testing.T) {
	earlier := `{"hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"amberfs hook codex 2>/dev/null || true","timeout":10}]},{"hooks":[{"type":"command","command":"mine"}]}]}}`
	for _, remove := range []bool{false, true} {
		dir := t.TempDir()
		must.OK(t, os.Mkdir(filepath.Join(dir, ".codex"), 0o755))
		file := filepath.Join(dir, ".codex/hooks.json")
		must.OK(t, os.WriteFile(file, []byte(earlier), 0o600))
		change(t, dir, "codex", remove)
		b, err := os.ReadFile(file)
		text := string(b)
		if n := strings.Count(text, "amberfs hook codex"); err != nil || (n == 0) != remove || n > len(agents["codex"].hookEvents) || !strings.Contains(text, "mine") || strings.Contains(text, "codex 2>/dev/null || true") {
			t.Errorf("remove %v: %s, %v", remove, text, err)
		}
		if !remove && strings.Index(text, "amberfs hook") > strings.Index(text, "mine") {
			t.Errorf("it is in another place: %s", text)
		}
	}
}
