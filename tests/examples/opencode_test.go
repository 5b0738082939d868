package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// opencode calls the plugin as opencode does: two sessions of one process take turns.
const opencode = `
import { execSync } from "node:child_process";
const { Amberfs } = await import(process.argv[2]);
const directory = process.argv[3];
const plugin = await Amberfs({ directory });
const turn = (sessionID, messageID, text) => plugin["chat.message"]({ sessionID, messageID }, { parts: [{ type: "text", text }] });
const bash = async (sessionID, command) => {
  const output = { output: "" };
  await plugin["tool.execute.before"]({ tool: "bash", sessionID }, { args: { command } });
  output.output = execSync(command, { cwd: directory, encoding: "utf8" });
  await plugin["tool.execute.after"]({ tool: "bash", sessionID, args: { command } }, output);
  console.log(sessionID + ": " + output.output.trim());
};
await turn("ses_a", "m1", "clean up");
await bash("ses_a", "rm old; echo a > new-a; echo said");
await turn("ses_b", "m2", "write");
await bash("ses_b", "echo b > new-b");
await bash("ses_b", "true");
const config = {};
await plugin.config(config);
console.log(config.command["amber-undo"].template);
console.log(await plugin.tool.amberfs_undo_session.execute({}, { sessionID: "ses_a" }));
`

func TestOpencodePlugin(t *testing.T) {
	harness.SkipWithout(t, "node")
	plugin, err := filepath.Abs("../../plugin/opencode/amberfs.js")
	must.OK(t, err)
	module := filepath.Join(t.TempDir(), "amberfs.mjs") // in opencode, each .js file is a module
	text, err := os.ReadFile(plugin)
	must.OK(t, err)
	must.OK(t, os.WriteFile(module, text, 0o600))
	script := filepath.Join(t.TempDir(), "opencode.mjs")
	must.OK(t, os.WriteFile(script, []byte(opencode), 0o600))

	t.Setenv("PATH", filepath.Dir(harness.Binary(t))+":"+os.Getenv("PATH"))
	t.Setenv("HOME", t.TempDir())
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("old"), []byte("old\n"), 0o600))
	out := run(t, "/", "node", script, module, m.Dir)
	for _, want := range []string{
		"ses_a: said\n\n\nchanged since turn-1:\ndeleted old (4 B)\nadded new-a (2 B)\nto undo exactly this: amberfs restore turn-1\n",
		"ses_b: changed since turn-2:\nadded new-b (2 B)\n",
		"ses_b: \n",
		"Call the tool amberfs_undo_session",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}

	wantFile(t, m.Path("old"), "old\n")
	wantFile(t, m.Path("new-b"), "b\n")
	wantGone(t, m.Path("new-a"))
	if turns := m.Amberfs("list", "--turns"); !strings.Contains(turns, "opencode/ses_b\tm2\twrite") {
		t.Errorf("the turns: %s", turns)
	}
}
