package hooks

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestForms reads the input that each agent sends, and compares the form in which a text is returned to the agent.
func TestForms(t *testing.T) {
	for agent, c := range map[string]struct {
		sent    string
		want    Input
		context string
	}{
		"claude": {
			`{"session_id":"s","cwd":"/w","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`,
			Input{Session: "s", Cwd: "/w", Event: "PostToolUse", Tool: "Bash", Command: "ls"},
			`{"hookSpecificOutput":{"additionalContext":"text","hookEventName":"PostToolUse"}}`,
		},
		"codex": {
			`{"session_id":"s","cwd":"/w","hook_event_name":"PostToolUse","tool_name":"shell","tool_input":{"command":["ls","-l"]}}`,
			Input{Session: "s", Cwd: "/w", Event: "PostToolUse", Tool: "shell", Command: "[ls -l]"},
			`{"hookSpecificOutput":{"additionalContext":"text","hookEventName":"PostToolUse"}}`,
		},
		"copilot": {
			`{"session_id":"s","cwd":"/w","hook_event_name":"PostToolUse","tool_name":"bash","tool_input":{"command":"ls"}}`,
			Input{Session: "s", Cwd: "/w", Event: "PostToolUse", Tool: "bash", Command: "ls"},
			`{"additionalContext":"text"}`,
		},
		"cline": {
			`{"taskId":"t","hookName":"PostToolUse","workspaceRoots":["/w","/x"],"postToolUse":{"toolName":"execute_command","parameters":{"command":"ls"},"success":true}}`,
			Input{Session: "t", Cwd: "/w", Event: "PostToolUse", Tool: "execute_command", Command: "ls"},
			`{"cancel":false,"contextModification":"text"}`,
		},
		"cline, its command line": {
			`{"taskId":"t","hookName":"tool_result","workspaceRoots":["/w"],"postToolUse":{"toolName":"run_commands","parameters":{"commands":"[\"ls\"]"},"success":true}}`,
			Input{Session: "t", Cwd: "/w", Event: "tool_result", Tool: "run_commands", Command: `["ls"]`},
			`"text"`,
		},
		"cline, a prompt": {
			`{"taskId":"t","hookName":"UserPromptSubmit","workspaceRoots":["/w"],"userPromptSubmit":{"prompt":"do it","attachments":[]}}`,
			Input{Session: "t", Cwd: "/w", Event: "UserPromptSubmit", Prompt: "do it"},
			`"text"`,
		},
		"opencode": {
			`{"cwd":"/w","hook_event_name":"PostToolUse","session_id":"s","tool_name":"bash","tool_input":{}}`,
			Input{Session: "s", Cwd: "/w", Event: "PostToolUse", Tool: "bash"},
			`"text"`,
		},
	} {
		got, err := ReadInput(strings.NewReader(c.sent))
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", agent, got, err, c.want)
		}
		out, err := json.Marshal(ContextOutput(agent, got.Event, "text"))
		must.OK(t, err)
		if string(out) != c.context {
			t.Errorf("%s gets %s, want %s", agent, out, c.context)
		}
	}
}
