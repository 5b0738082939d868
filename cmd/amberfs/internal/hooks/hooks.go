// Package hooks has the settings in which agents name the commands that they run before each turn
// and after each call of a tool.
package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/amberfs/amberfs/internal/errs"
)

// An agent has a file of settings, and events for the beginning of a turn and the end of a call.
type agent struct {
	file   string
	events []string
	extra  string // more fields of a hook
}

var agents = map[string]agent{
	"claude": {".claude/settings.json", []string{"UserPromptSubmit", "PostToolUse", "PostToolUseFailure"}, `,"timeout":10`},
	"codex":  {".codex/hooks.json", []string{"UserPromptSubmit", "PostToolUse"}, `,"timeout":10`},
	"gemini": {".gemini/settings.json", []string{"BeforeAgent", "AfterTool"}, `,"timeout":10000`},
}

// Context is the JSON with which a hook gives an agent a text, or the text itself for an agent that is
// not known.
func Context(agent, event, text string) any {
	if agent == "cursor" {
		return map[string]string{"additional_context": text}
	}
	if _, ok := agents[agent]; !ok {
		return text
	}

	return map[string]any{"hookSpecificOutput": map[string]string{"hookEventName": event, "additionalContext": text}}
}

// Warning is the JSON with which an agent shows a message to its user, nil for an agent that has none.
func Warning(agent, text string) any {
	if agent == "cursor" {
		return map[string]any{"continue": true, "user_message": text}
	}
	if _, ok := agents[agent]; !ok {
		return nil
	}

	return map[string]string{"systemMessage": text}
}

// Actor is the name of the actor of an agent's session.
func Actor(agent, session string) string {
	clean := func(s string) string {
		s = strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' {
				return r
			}
			return '_'
		}, s)
		return strings.TrimLeft(s[:min(len(s), 60)], "-")
	}
	if session = clean(session); session == "" {
		return clean(agent)
	}

	return clean(agent) + "/" + session
}

// Settings are those of an agent, and what they are to become.
type Settings struct {
	File        string
	Changed     bool
	was, become []byte
}

// Plan reads the settings of an agent in a directory, and adds the hook or removes it. A file
// that is missing is empty.
func Plan(dir, name string, remove bool) (*Settings, error) {
	a, ok := agents[name]
	if !ok {
		return nil, errs.Fail(errs.Invalid, "there are no settings for %q", name).WithHint("they are for claude, codex and gemini; others call `amberfs hook generic`")
	}

	was, err := os.ReadFile(filepath.Join(dir, a.file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}

	return plan(filepath.Join(dir, a.file), was, name, remove)
}

// Wrote returns, for the path of an agent's settings, a function that reports whether the settings
// changed by Plan alone; nil for other paths.
func Wrote(p string) func(was, is []byte) bool {
	for name, a := range agents {
		if p != a.file && !strings.HasSuffix(p, "/"+a.file) {
			continue
		}
		return func(was, is []byte) bool {
			added, err := plan(p, was, name, false)
			return err == nil && added.Changed && sameJSON(added.become, is)
		}
	}
	return nil
}

// plan is Plan for a file with some contents.
func plan(file string, was []byte, name string, remove bool) (*Settings, error) {
	s := &Settings{File: file, was: was}

	var err error
	if s.become, err = edited(was, agents[name], name, remove); err != nil {
		return nil, errs.Fail(errs.Failed, "%s: %w", s.File, err).WithHint("correct the file, or add the hook by hand")
	}

	s.Changed = !sameJSON(s.was, s.become)
	return s, nil
}

// edited returns settings to which the hook of an agent was added, or from which it was removed.
// Everything else in them keeps its order and its spelling.
func edited(settings []byte, a agent, name string, remove bool) ([]byte, error) {
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

	for _, event := range a.events {
		var err error
		if root, err = editedEvent(root, event, a.extra, name, remove); err != nil {
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

// editedEvent is edited for one event. root is a JSON object.
func editedEvent(root []byte, event, extra, name string, remove bool) ([]byte, error) {
	hooks := gjson.GetBytes(root, "hooks")
	if hooks.Exists() && !hooks.IsObject() {
		return nil, errors.New("hooks: not a JSON object")
	}

	groups := hooks.Get(event)
	if groups.Exists() && !groups.IsArray() {
		return nil, fmt.Errorf("hooks of %s: not a JSON array", event)
	}

	// The hook takes the place of the first of its own, or the last place.
	command := fmt.Sprintf(`{"hooks":[{"type":"command","command":%s%s}]}`, encode(shellCommand(name)), extra)
	var kept []string
	placed := remove
	for _, group := range groups.Array() {
		switch {
		case !isOurs(group, name):
			kept = append(kept, group.Raw)
		case !placed:
			kept, placed = append(kept, command), true
		}
	}

	if !placed {
		kept = append(kept, command)
	}

	// What is empty then is removed.
	switch path := "hooks." + event; {
	case len(kept) > 0:
		return sjson.SetRawBytes(root, path, []byte("["+strings.Join(kept, ",")+"]"))
	case len(hooks.Map()) > 1 || len(hooks.Map()) == 1 && !groups.Exists():
		return sjson.DeleteBytes(root, path)
	}

	return sjson.DeleteBytes(root, "hooks")
}

// isOurs reports whether a group of hooks is what Plan adds, or what an earlier version added.
func isOurs(group gjson.Result, agent string) bool {
	return group.Get("matcher").String() == "" && group.Get("hooks.#").Int() == 1 &&
		strings.HasPrefix(group.Get("hooks.0.command").String(), commandStart(agent))
}

// sameJSON reports whether two settings differ in white space alone. None are the same as {}.
func sameJSON(a, b []byte) bool {
	var one, other bytes.Buffer
	if len(a) == 0 {
		a = []byte("{}")
	}
	return json.Compact(&one, a) == nil && json.Compact(&other, b) == nil && bytes.Equal(one.Bytes(), other.Bytes())
}

// Diff returns the lines that change, with - and + before them.
func (s *Settings) Diff() string {
	a, b := strings.SplitAfter(string(s.was), "\n"), strings.SplitAfter(string(s.become), "\n")
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

// Write writes the changed settings beside the file and renames them, so that a full disk
// loses none. No file is removed: an object in which nothing is left stays.
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

	_, err = f.Write(s.become)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is our own
	}

	return err
}

// encode returns JSON in which <, > and & are written as they are.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it does not fail for texts

	return bytes.TrimSpace(b.Bytes())
}
