package ui_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestHandOff hands a workspace off in the page, changes it elsewhere, and merges what comes back.
func TestHandOff(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("text"), []byte("here\n"), 0o644))
	must.OK(t, os.WriteFile(m.Path("key.pem"), []byte("secret\n"), 0o600))
	rules := filepath.Join(t.TempDir(), "policy.json")
	must.OK(t, os.WriteFile(rules, []byte(`{"forget": ["*.pem"]}`), 0o644))
	m.Amberfs("policy", rules)
	m.Amberfs("remote", "add", "team", "file://"+filepath.Join(t.TempDir(), "remote"))
	m.Amberfs("snapshot", "first", "-m", "The beginning")
	b := open(t, m, "--write")

	t.Log("the preview, and the line")
	b.chosen("Now")
	b.menu("#actions button", "More actions", "Hand off")
	b.wait(`document.querySelector('#dialog').innerText.includes('key.pem')`)
	b.answer("1 file of", "Hand off")
	b.wait(`document.querySelector('#line')`)
	var line string
	b.eval(`document.querySelector('#line').textContent`, &line)

	t.Log("the other machine")
	there := filepath.Join(t.TempDir(), "there")
	elsewhere := func(dir, commands string) {
		t.Helper()
		cmd := exec.Command("sh", "-ec", commands)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PATH="+filepath.Dir(harness.Binary(t))+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", commands, err, out)
		}
	}
	state := t.TempDir()
	elsewhere(t.TempDir(), fmt.Sprintf("export HOME=%s; %s; cd %s; test ! -e key.pem; echo there >text; amberfs handoff --back",
		state, strings.Replace(line, " PATH", " "+there, 1), there))

	t.Log("what came back")
	b.press(`document.querySelector('#dialog [aria-label=Close], #dialog .close, #dialog .actions button')`)
	b.chosen("Now")
	b.menu("#actions button", "More actions", "Merge what came back")
	b.answer("1 file will change", "Merge")
	b.said("Merged what came back")
	b.has("text", "there\n")
	b.has("key.pem", "secret\n")
}
