// Package hooks has the settings in which agents name the commands that they run before
// each turn.
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

	"github.com/amberfs/amberfs/internal/fail"
)

// An agent has a file of settings, and an event for the beginning of a turn.
type agent struct {
	file, event, extra string
}

var agents = map[string]agent{
	"claude": {".claude/settings.json", "UserPromptSubmit", `,"timeout":10`},
	"codex":  {".codex/hooks.json", "UserPromptSubmit", `,"timeout":10`},
	"gemini": {".gemini/settings.json", "BeforeAgent", `,"timeout":10000`},
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
		return nil, fail.New(fail.Usage, "there are no settings for %q", name).WithHint("they are for claude, codex and gemini; others call `amberfs hook generic`")
	}
	s := &Settings{File: filepath.Join(dir, a.file)}
	var err error
	if s.was, err = os.ReadFile(s.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	root, err := members(s.was)
	if err != nil {
		return nil, fail.New(fail.Failed, "%s: %w", s.File, err).WithHint("correct the file, or add the hook by hand")
	}
	hooks, err := members(root.get("hooks"))
	if err != nil {
		return nil, fail.New(fail.Failed, "%s: hooks: %w", s.File, err)
	}
	var groups, left []json.RawMessage
	if raw := hooks.get(a.event); raw != nil {
		if err := json.Unmarshal(raw, &groups); err != nil {
			return nil, fail.New(fail.Failed, "%s: hooks of %s: %w", s.File, a.event, err)
		}
	}
	entry := fmt.Sprintf(`{"hooks":[{"type":"command","command":%s%s}]}`, bytes.TrimSpace(encode(shellCommand(name))), a.extra)
	found := remove
	for _, g := range groups {
		switch {
		case !isOurs(g, name):
			left = append(left, g)
		case !found:
			left, found = append(left, json.RawMessage(entry)), true
		}
	}
	if !found {
		left = append(left, json.RawMessage(entry))
	}
	hooks.set(a.event, encode(left), len(left) == 0)
	root.set("hooks", encode(hooks), len(hooks) == 0)
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(encode(root)), "", "  "); err != nil {
		return nil, err
	}
	if len(s.was) == 0 || bytes.HasSuffix(s.was, []byte("\n")) {
		b.WriteByte('\n')
	}
	s.become = b.Bytes()
	s.Changed = (len(s.was) > 0 || len(root) > 0) && compact(s.was) != compact(s.become)
	return s, nil
}

// isOurs reports whether a group of hooks is what Plan adds, or what an earlier version added.
func isOurs(group json.RawMessage, agent string) bool {
	var g struct {
		Matcher string
		Hooks   []struct{ Command string }
	}
	return json.Unmarshal(group, &g) == nil && g.Matcher == "" && len(g.Hooks) == 1 && strings.HasPrefix(g.Hooks[0].Command, commandStart(agent))
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

func compact(b []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return ""
	}
	return out.String()
}

// An object is a JSON object whose members keep their order and their spelling.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

// members reads an object; what is empty is an empty one.
func members(raw []byte) (object, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if !json.Valid(raw) {
		return nil, errors.New("not valid JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, _ := d.Token(); t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var o object
	for d.More() {
		key, err := d.Token()
		var m member
		if err = errors.Join(err, d.Decode(&m.value)); err != nil {
			return nil, err
		}
		m.key, _ = key.(string)
		o = append(o, m)
	}
	return o, nil
}

func (o object) find(key string) int {
	return slices.IndexFunc(o, func(m member) bool { return m.key == key })
}

func (o object) get(key string) json.RawMessage {
	if i := o.find(key); i >= 0 {
		return o[i].value
	}
	return nil
}

func (o *object) set(key string, value json.RawMessage, remove bool) {
	switch i := o.find(key); {
	case i < 0 && !remove:
		*o = append(*o, member{key, value})
	case i >= 0 && remove:
		*o = slices.Delete(*o, i, i+1)
	case i >= 0:
		(*o)[i].value = value
	}
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(m.key))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encode writes <, > and & as they are.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // of texts and valid JSON it does not fail
	return b.Bytes()
}
