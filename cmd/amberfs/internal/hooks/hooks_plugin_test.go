package hooks

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

const plugin = "../../../../plugin"

func readJSON(t *testing.T, into any, elem ...string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	must.OK(t, err)
}

// TestPluginManifests checks a part of what the agents' own programs check, which `make test-plugin` runs: that each
// manifest has the name, the version and a description, and that each path in it exists. Agent Plugins 1.0 allows no
// other fields.
func TestPluginManifests(t *testing.T) {
	version := ""
	for _, file := range []string{".claude-plugin/plugin.json", ".codex-plugin/plugin.json", ".cursor-plugin/plugin.json", "portable/plugin.json", "portable/gemini-extension.json"} {
		var m map[string]any
		readJSON(t, &m, plugin, file)
		if version == "" {
			version, _ = m["version"].(string)
		}
		if m["name"] != "amberfs" || m["version"] != version || m["description"] == "" {
			t.Errorf("%s: %v %v", file, m["name"], m["version"])
		}
		for key, v := range m {
			if path, ok := v.(string); ok && strings.HasPrefix(path, "./") {
				if _, err := os.Stat(filepath.Join(plugin, path)); err != nil {
					t.Errorf("%s: %s: %v", file, key, err)
				}
			}
			fields := "$schema name version description author homepage repository license keywords extensions"
			if file == "portable/plugin.json" && !strings.Contains(" "+fields+" ", " "+key+" ") {
				t.Errorf("%s has the field %s", file, key)
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(plugin, "plugin.json")); err == nil {
		t.Error("a plugin.json beside .codex-plugin makes Codex 0.171 read Agent Plugins 1.0, which has no hooks")
	}
	var market struct {
		Name    string
		Owner   struct{ Name string }
		Plugins []struct{ Name, Source string }
	}
	readJSON(t, &market, plugin, "../.claude-plugin/marketplace.json")
	if len(market.Plugins) != 1 || market.Plugins[0].Name != "amberfs" || market.Plugins[0].Source != "./plugin" || market.Owner.Name == "" {
		t.Errorf("the marketplace has %+v", market)
	}
}

var skillName = regexp.MustCompile(`\A---\nname: ([a-z0-9-]+)\ndescription: .+\n`)

func TestPluginSkills(t *testing.T) {
	for _, name := range []string{"amberfs", "amber-rewind"} {
		b, err := os.ReadFile(filepath.Join(plugin, "portable/skills", name, "SKILL.md"))
		if m := skillName.FindSubmatch(b); err != nil || m == nil || string(m[1]) != name {
			t.Errorf("%s: %v, %q", name, err, m)
		}
	}
}

// TestPluginHooks: the plugin has the same commands as `amberfs hook --install` writes.
func TestPluginHooks(t *testing.T) {
	worktree := map[string]string{"WorktreeCreate": "create", "WorktreeRemove": "remove"}
	type group struct {
		Command string
		Hooks   []struct{ Type, Command string }
	}
	for file, want := range map[string]map[string]string{
		"hooks/hooks.json":          {"UserPromptSubmit": "claude", "PostToolUse": "claude", "PostToolUseFailure": "claude", "WorktreeCreate": "", "WorktreeRemove": ""},
		"hooks/codex.json":          {"UserPromptSubmit": "codex", "PostToolUse": "codex"},
		"hooks/cursor.json":         {"beforeSubmitPrompt": "cursor", "postToolUse": "cursor"},
		"portable/hooks/hooks.json": {"BeforeAgent": "gemini", "AfterTool": "gemini"},
	} {
		var h struct{ Hooks map[string][]group }
		readJSON(t, &h, plugin, file)
		for event, groups := range h.Hooks {
			command := groups[0].Command
			if command == "" {
				command = groups[0].Hooks[0].Command
			}
			line := "amberfs worktree-hook " + worktree[event] // may fail, because Claude Code then shows the reason
			if want[event] != "" {
				line = shellCommand(want[event])
			}
			if len(groups) != 1 || command != line {
				t.Errorf("%s: %s runs %s\nwant %s", file, event, command, line)
			}
		}
		if len(h.Hooks) != len(want) {
			t.Errorf("%s has %d events", file, len(h.Hooks))
		}
	}
}

// TestMissing: if amberfs is not installed, the hook shows a message once, and does not block a turn.
func TestMissing(t *testing.T) {
	sh, err := exec.LookPath("sh")
	must.OK(t, err)
	bin := t.TempDir()
	for _, tool := range []string{"mkdir"} {
		path, err := exec.LookPath(tool)
		must.OK(t, err)
		must.OK(t, os.Symlink(path, filepath.Join(bin, tool)))
	}
	for _, agent := range []string{"claude", "codex", "gemini", "cursor"} {
		home := t.TempDir()
		for i := range 2 {
			cmd := exec.Command(sh, "-c", shellCommand(agent))
			cmd.Env = []string{"PATH=" + bin, "HOME=" + home}
			cmd.Stdin = strings.NewReader("{}")
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Contains(string(out), "amberfs is not installed") != (i == 0) {
				t.Errorf("%s, call %d: %v, %q", agent, i, err, out)
			}
			if i == 0 && !json.Valid(out) || i > 0 && len(out) > 0 {
				t.Errorf("%s, call %d prints %q", agent, i, out)
			}
		}
	}
}
