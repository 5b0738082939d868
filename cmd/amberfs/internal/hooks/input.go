package hooks

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Input is what agents send to hooks, under the names of its fields that they have.
type Input struct {
	Prompt, Cwd        string
	Session            string // of the conversation
	ID                 string // of the user's message, where the agent has one
	Name, WorktreePath string // of the worktree that is created, and of the one that is removed
	Event              string
	Tool, Command      string // the tool that was called, and the command of a shell
}

// Read reads what an agent sends. Cursor calls a session a conversation, and lists the directories
// that are open in it.
func Read(r io.Reader) (Input, error) {
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
	}

	b := bufio.NewReader(r)
	for mark, _ := b.Peek(3); string(mark) == "\ufeff"; mark, _ = b.Peek(3) { // Cursor begins with byte order marks
		_, _ = b.Discard(3)
	}
	if err := json.NewDecoder(b).Decode(&in); err != nil {
		return Input{}, fmt.Errorf("standard input is not what agents send to hooks: %w", err)
	}

	out := Input{Prompt: in.Prompt, Cwd: in.Cwd, Name: in.Name, WorktreePath: in.WorktreePath, Event: in.Event, Tool: in.Tool}
	if in.ToolInput.Command != nil {
		out.Command = fmt.Sprint(in.ToolInput.Command)
	}

	out.Session = cmp.Or(in.Conversation, in.Session)
	out.ID = cmp.Or(in.PromptID, in.Turn, in.Generation)
	if out.Cwd == "" && len(in.Roots) > 0 {
		out.Cwd = in.Roots[0]
	}

	return out, nil
}

// Labels are those of a turn's snapshot.
func (in Input) Labels(agent string) map[string]string {
	l := map[string]string{"agent": agent}
	if in.Session != "" {
		l["session"] = in.Session
	}
	if in.ID != "" {
		l["message"] = in.ID
	}

	return l
}

// Message is the beginning of the prompt, or the call, in one line.
func (in Input) Message() string {
	const most = 200
	text := in.Prompt
	if in.Tool != "" {
		text = in.Tool + " " + in.Command
	}

	line := []rune(strings.Join(strings.Fields(text), " "))
	return string(line[:min(len(line), most)])
}

// WorktreeName makes a fork's name of what an agent calls a worktree.
func WorktreeName(name string) string {
	return strings.TrimLeft(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, name), "-.")
}
