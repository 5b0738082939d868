package hooks

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Input is the input of a hook. Agents use different names for some fields.
type Input struct {
	Prompt, Cwd   string
	Session       string // the id of the conversation
	MessageID     string // the id of the user's message, "" if the agent has none
	WorktreeName  string // the name of a worktree to create
	WorktreePath  string // the path of a worktree to remove
	Event         string
	Tool, Command string // the tool that was called, and its command if it is a shell
}

// A clineInput has the fields of Cline's hooks. Cline calls a session a task.
type clineInput struct {
	Task   string   `json:"taskId"`
	Event  string   `json:"hookName"`
	Roots  []string `json:"workspaceRoots"`
	Prompt struct {
		Text string `json:"prompt"`
	} `json:"userPromptSubmit"`
	Call struct {
		Tool       string `json:"toolName"`
		Parameters struct {
			Command  any `json:"command"`
			Commands any `json:"commands"`
		} `json:"parameters"`
	} `json:"postToolUse"`
}

// ReadInput reads the JSON that an agent sends to a hook. Cursor calls a session a conversation, and lists
// open directories in place of a working directory.
func ReadInput(r io.Reader) (Input, error) {
	var in struct {
		Session      string   `json:"session_id"`
		Conversation string   `json:"conversation_id"`
		Prompt       string   `json:"prompt"`
		PromptID     string   `json:"prompt_id"`
		Turn         string   `json:"turn_id"`
		Generation   string   `json:"generation_id"`
		Cwd          string   `json:"cwd"`
		Roots        []string `json:"workspace_roots"`
		Name         string   `json:"name"`
		WorktreePath string   `json:"worktree_path"`
		Event        string   `json:"hook_event_name"`
		Tool         string   `json:"tool_name"`
		ToolInput    struct {
			Command any `json:"command"` // a text, or a list of words
		} `json:"tool_input"`
		clineInput
	}

	b := bufio.NewReader(r)
	for mark, _ := b.Peek(3); string(mark) == "\ufeff"; mark, _ = b.Peek(3) { // Cursor sends byte order marks first
		_, _ = b.Discard(3)
	}
	if err := json.NewDecoder(b).Decode(&in); err != nil {
		return Input{}, fmt.Errorf("standard input is not what agents send to hooks: %w", err)
	}

	cline := in.clineInput
	out := Input{Cwd: in.Cwd, WorktreeName: in.Name, WorktreePath: in.WorktreePath}
	out.Prompt = cmp.Or(in.Prompt, cline.Prompt.Text)
	out.Event, out.Tool = cmp.Or(in.Event, cline.Event), cmp.Or(in.Tool, cline.Call.Tool)
	if command := cmp.Or(in.ToolInput.Command, cline.Call.Parameters.Command, cline.Call.Parameters.Commands); command != nil {
		out.Command = fmt.Sprint(command)
	}

	out.Session = cmp.Or(in.Conversation, in.Session, cline.Task)
	out.MessageID = cmp.Or(in.PromptID, in.Turn, in.Generation)
	if roots := append(in.Roots, cline.Roots...); out.Cwd == "" && len(roots) > 0 {
		out.Cwd = roots[0]
	}

	return out, nil
}

// Labels returns the labels of the snapshot of a turn.
func (in Input) Labels(agent string) map[string]string {
	l := map[string]string{"agent": agent}
	if in.Session != "" {
		l["session"] = in.Session
	}
	if in.MessageID != "" {
		l["message"] = in.MessageID
	}

	return l
}

// Message returns the beginning of the prompt, or of the call of a tool, in one line.
func (in Input) Message() string {
	const maxRunes = 200
	text := in.Prompt
	if in.Tool != "" {
		text = in.Tool + " " + in.Command
	}

	line := []rune(strings.Join(strings.Fields(text), " "))
	return string(line[:min(len(line), maxRunes)])
}

// ForkName makes the name of a fork from an agent's name for a worktree.
func ForkName(name string) string {
	return strings.TrimLeft(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, name), "-.")
}
