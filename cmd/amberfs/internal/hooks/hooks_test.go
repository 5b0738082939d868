package hooks

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

func change(t *testing.T, dir, agent string, remove bool) (changed bool, diff string) {
	t.Helper()
	s, err := PlanEdit(dir, agent, remove)
	must.OK(t, err)
	if s.Changed {
		diff = s.Diff()
		must.OK(t, s.Write())
	}
	return s.Changed, diff
}

// TestInstall: an installation keeps all other settings. A removal removes only the hook.
func TestInstall(t *testing.T) {
	for name, before := range map[string]string{
		"nothing":      "",
		"empty":        "{}\n",
		"other":        "{\n  \"z\": 1.50,\n  \"a\": [\n    \"x\"\n  ]\n}\n",
		"other events": "{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}",
		"same event": "{\n  \"hooks\": {\n    \"UserPromptSubmit\": [\n      {\n        \"hooks\": [\n          {\n" +
			"            \"command\": \"mine <x>\"\n          }\n        ]\n      }\n    ]\n  },\n  \"b\": true\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, ".claude/settings.json")
			if before != "" {
				must.OK(t, os.Mkdir(filepath.Dir(file), 0o755))
				must.OK(t, os.WriteFile(file, []byte(before), 0o600))
			}
			changed, diff := change(t, dir, "claude", false)
			b, err := os.ReadFile(file)
			if err != nil || !changed || strings.Count(string(b), "amberfs hook claude ") != len(agents["claude"].hookEvents) || !strings.Contains(diff, "+") {
				t.Fatalf("installed: %s, %v, diff %s", b, err, diff)
			}
			if strings.Contains(before, "mine <x>") != strings.Contains(string(b), "mine <x>") {
				t.Errorf("what was there is lost: %s", b)
			}
			if changed, _ := change(t, dir, "claude", false); changed {
				t.Error("installed twice")
			}
			if changed, _ := change(t, dir, "claude", true); !changed {
				t.Error("not removed")
			}
			b, err = os.ReadFile(file)
			want := cmp.Or(before, "{}\n") // the removal leaves an empty object, and does not remove the file
			if string(b) != want {
				t.Errorf("after the removal: %q, %v, want %q", b, err, want)
			}
			if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 1 {
				t.Errorf("beside the file: %v, %v", all, err)
			}
			if changed, _ := change(t, dir, "claude", true); changed {
				t.Error("removed twice")
			}
		})
	}
}

// TestDeviceStays: if the file of settings is a link to a device, Write fails and does not replace the device by a
// file. A user who wants no settings may have made such a link.
func TestDeviceStays(t *testing.T) {
	dir := t.TempDir()
	device := filepath.Join(dir, "device")
	if err := unix.Mknod(device, unix.S_IFIFO|0o666, 0); err != nil {
		t.Fatal(err)
	}
	must.OK(t, os.Mkdir(filepath.Join(dir, ".claude"), 0o755))
	must.OK(t, os.Symlink(device, filepath.Join(dir, ".claude/settings.json")))
	s := &Settings{File: filepath.Join(dir, ".claude/settings.json"), after: []byte("{}")}
	if err := s.Write(); err == nil {
		t.Error("it was written")
	}
	if st, err := os.Lstat(device); err != nil || st.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the device is %v, %v", st, err)
	}
}

func TestRefused(t *testing.T) {
	if _, err := PlanEdit(t.TempDir(), "generic", false); err == nil {
		t.Error("settings for any agent")
	}
	for _, bad := range []string{"{", "[]", `{"hooks":[]}`, `{"hooks":{"BeforeAgent":{}}}`} {
		dir := t.TempDir()
		must.OK(t, os.MkdirAll(filepath.Join(dir, ".gemini"), 0o755))
		file := filepath.Join(dir, ".gemini/settings.json")
		must.OK(t, os.WriteFile(file, []byte(bad), 0o600))
		if _, err := PlanEdit(dir, "gemini", false); err == nil {
			t.Errorf("installed into %s", bad)
		}
	}
}
