// Package hooks edits the settings of agents. In these settings, the user names commands that the agent runs before
// each turn and after each call of a tool. Package hooks also reads the input of these commands.
package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
)

// settingsFormat describes the file with an agent's settings, and the form of a hook in this file.
type settingsFormat struct {
	file        string   // path of the settings, from the directory of a project
	hookEvents  []string // the events at the beginning of a turn and at the end of a call
	extraFields string   // more JSON fields of a hook
}

var agents = map[string]settingsFormat{
	"claude": {".claude/settings.json", []string{"UserPromptSubmit", "PostToolUse", "PostToolUseFailure"}, `,"timeout":10`},
	"codex":  {".codex/hooks.json", []string{"UserPromptSubmit", "PostToolUse"}, `,"timeout":10`},
	"gemini": {".gemini/settings.json", []string{"BeforeAgent", "AfterTool"}, `,"timeout":10000`},
}

// ContextOutput returns the value whose JSON a hook prints to add text to the context of an agent. For an unknown
// agent it returns the text itself.
func ContextOutput(agent, event, text string) any {
	switch agent {
	case "cursor":
		return map[string]string{"additional_context": text}
	case "copilot":
		return map[string]string{"additionalContext": text}
	case "cline":
		return map[string]any{"cancel": false, "contextModification": text}
	}
	if _, ok := agents[agent]; !ok {
		return text
	}

	return map[string]any{"hookSpecificOutput": map[string]string{"hookEventName": event, "additionalContext": text}}
}

// WarningOutput returns the value whose JSON a hook prints so that an agent shows a message to its user, nil for
// an unknown agent.
func WarningOutput(agent, text string) any {
	if agent == "cursor" {
		return map[string]any{"continue": true, "user_message": text}
	}
	if _, ok := agents[agent]; !ok {
		return nil
	}

	return map[string]string{"systemMessage": text}
}

// Settings are the settings of an agent, before and after an edit.
type Settings struct {
	File          string
	Changed       bool
	before, after []byte
}

// PlanEdit reads the settings of an agent in a directory, and returns them with the hook added or removed. It writes
// nothing. A missing file counts as an empty one.
func PlanEdit(dir, name string, remove bool) (*Settings, error) {
	a, ok := agents[name]
	if !ok {
		return nil, errs.Fail(errs.Invalid, "there are no settings for %q", name).WithHint("they are for claude, codex and gemini; others call `amberfs hook generic`")
	}

	text, err := os.ReadFile(filepath.Join(dir, a.file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}

	return editSettings(filepath.Join(dir, a.file), text, name, remove)
}

// HookOnlyChecker returns a function if p is the path of an agent's settings, and nil for other paths. The function
// reports whether adding the hook is the only difference between two versions of the settings.
func HookOnlyChecker(p string) func(before, after []byte) bool {
	for name, a := range agents {
		if p != a.file && !strings.HasSuffix(p, "/"+a.file) {
			continue
		}
		return func(before, after []byte) bool {
			added, err := editSettings(p, before, name, false)
			return err == nil && added.Changed && sameJSON(added.after, after)
		}
	}
	return nil
}

// editSettings does the work of PlanEdit. text is the content of the file.
func editSettings(file string, text []byte, name string, remove bool) (*Settings, error) {
	s := &Settings{File: file, before: text}

	var err error
	if s.after, err = editJSON(text, agents[name], name, remove); err != nil {
		return nil, errs.Fail(errs.Failed, "%s: %w", s.File, err).WithHint("correct the file, or add the hook by hand")
	}

	s.Changed = !sameJSON(s.before, s.after)
	return s, nil
}

// editJSON returns the JSON of settings with the hook of an agent added or removed. All other parts
// keep their order and spelling.
func editJSON(settings []byte, a settingsFormat, name string, remove bool) ([]byte, error) {
	root := bytes.TrimSpace(settings)
	if len(root) == 0 {
		root = []byte("{}")
	}
	if !gjson.ValidBytes(root) {
		return nil, errors.New("not valid JSON")
	}
	if !gjson.ParseBytes(root).IsObject() {
		return nil, errors.New("not a JSON object")
	}

	for _, event := range a.hookEvents {
		var err error
		if root, err = editEvent(root, event, a.extraFields, name, remove); err != nil {
			return nil, err
		}
	}

	var b bytes.Buffer
	if err := json.Indent(&b, root, "", "  "); err != nil {
		return nil, err
	}
	if len(settings) == 0 || bytes.HasSuffix(settings, []byte("\n")) {
		b.WriteByte('\n')
	}

	return b.Bytes(), nil
}

// editEvent is editJSON for one event. root is a JSON object, and extraFields are more JSON fields of the hook.
func editEvent(root []byte, event, extraFields, name string, remove bool) ([]byte, error) {
	hooks := gjson.GetBytes(root, "hooks")
	if hooks.Exists() && !hooks.IsObject() {
		return nil, errors.New("hooks: not a JSON object")
	}

	groups := hooks.Get(event)
	if groups.Exists() && !groups.IsArray() {
		return nil, fmt.Errorf("hooks of %s: not a JSON array", event)
	}

	// The new hook takes the place of the first hook of amberfs, or the last place. Further hooks of
	// amberfs are removed.
	hook := fmt.Sprintf(`{"hooks":[{"type":"command","command":%s%s}]}`, encodeJSON(shellCommand(name)), extraFields)
	var result []string
	placed := remove
	for _, group := range groups.Array() {
		switch {
		case !isAmberfsHook(group, name):
			result = append(result, group.Raw)
		case !placed:
			result, placed = append(result, hook), true
		}
	}

	if !placed {
		result = append(result, hook)
	}

	// A list or object that becomes empty is removed.
	switch path := "hooks." + event; {
	case len(result) > 0:
		return sjson.SetRawBytes(root, path, []byte("["+strings.Join(result, ",")+"]"))
	case len(hooks.Map()) > 1 || len(hooks.Map()) == 1 && !groups.Exists():
		return sjson.DeleteBytes(root, path)
	}

	return sjson.DeleteBytes(root, "hooks")
}

// isAmberfsHook reports whether a group of hooks was added by this or an earlier version of PlanEdit.
func isAmberfsHook(group gjson.Result, agent string) bool {
	return group.Get("matcher").String() == "" && group.Get("hooks.#").Int() == 1 &&
		strings.HasPrefix(group.Get("hooks.0.command").String(), commandStart(agent))
}

// sameJSON reports whether the JSON texts a and b differ in white space alone. If a is empty, it counts as {}.
func sameJSON(a, b []byte) bool {
	var one, other bytes.Buffer
	if len(a) == 0 {
		a = []byte("{}")
	}
	return json.Compact(&one, a) == nil && json.Compact(&other, b) == nil && bytes.Equal(one.Bytes(), other.Bytes())
}

// Diff returns the lines that change, with - and + before them.
func (s *Settings) Diff() string {
	a, b := strings.SplitAfter(string(s.before), "\n"), strings.SplitAfter(string(s.after), "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}

	var out strings.Builder
	for _, l := range a {
		out.WriteString("-" + strings.TrimSuffix(l, "\n") + "\n")
	}
	for _, l := range b {
		out.WriteString("+" + strings.TrimSuffix(l, "\n") + "\n")
	}

	return out.String()
}

// Write writes the changed settings to a temporary file and renames it to the settings file, so that
// a full disk loses no settings. A file in which only {} is left is not removed.
func (s *Settings) Write() error {
	name, mode := s.File, os.FileMode(0o644)
	if to, err := filepath.EvalSymlinks(name); err == nil {
		name = to
	}

	if st, err := os.Stat(name); err == nil {
		if !st.Mode().IsRegular() { // such as /dev/null, which the rename would replace
			return fmt.Errorf("cannot write settings to %s: it is no regular file", name)
		}
		mode = st.Mode().Perm()
	}

	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}

	f, err := os.CreateTemp(filepath.Dir(name), ".settings-")
	if err != nil {
		return err
	}

	_, err = f.Write(s.after)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the temporary file
	}

	return err
}

// encodeJSON returns the JSON of v, in which <, > and & are not escaped.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	_ = gitquote.Encoder(&b).Encode(v) // encoding strings, and maps of them, cannot fail

	return bytes.TrimSpace(b.Bytes())
}

// FilesWithHook returns the settings files, in the given directories, that contain the hook of an agent.
func FilesWithHook(dirs ...string) (files []string) {
	for _, dir := range dirs {
		for name := range agents {
			if s, err := PlanEdit(dir, name, true); err == nil && s.Changed && !slices.Contains(files, s.File) {
				files = append(files, s.File)
			}
		}
	}

	slices.Sort(files)
	return files
}
