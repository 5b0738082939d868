package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// A client asks a daemon on its socket.
type client struct {
	t *testing.T
	m *harness.Mount
	c *http.Client
}

func newClient(t *testing.T) *client {
	m := harness.New(t)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(m.Store, "socket"))
	}
	return &client{t, m, &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// ask decodes the answer, which has to have the status.
func (c *client) ask(status int, op string, args any, into any) {
	c.t.Helper()
	body, err := json.Marshal(args)
	c.must(err)
	resp, err := c.c.Post("http://amberfs/v1/"+op, "", bytes.NewReader(body))
	c.must(err)
	defer resp.Body.Close()
	var raw json.RawMessage
	c.must(json.NewDecoder(resp.Body).Decode(&raw))
	if resp.StatusCode != status {
		c.t.Fatalf("%s %s: status %d, want %d: %s", op, body, resp.StatusCode, status, raw)
	}
	if into != nil {
		c.must(json.Unmarshal(raw, into))
	}
}

func (c *client) must(err error) {
	c.t.Helper()
	must.OK(c.t, err)
}

func (c *client) put(path, text string) {
	c.t.Helper()
	c.must(os.WriteFile(c.m.Path(path), []byte(text), 0o644))
}

func (c *client) has(path, want string) {
	c.t.Helper()
	got, err := os.ReadFile(c.m.Path(path))
	c.must(err)
	if string(got) != want {
		c.t.Errorf("%s is %q, want %q", path, got, want)
	}
}

type object = map[string]any

// numbered is a text of twenty lines, some of which are others.
func numbered(others map[int]string) string {
	var b strings.Builder
	for i := range 20 {
		if s, ok := others[i]; ok {
			b.WriteString(s + "\n")
		} else {
			fmt.Fprintf(&b, "line %d\n", i)
		}
	}
	return b.String()
}

// TestRestoreHunk: a hunk is restored alone, also in a file with a name and contents that
// are not UTF-8, and not if it is another one meanwhile.
func TestRestoreHunk(t *testing.T) {
	c := newClient(t)
	name := "n\xff"
	path := object{"bytes": []byte(name)}
	c.put(name, numbered(map[int]string{1: "\xfe"}))
	c.ask(200, "snapshot", object{"name": "v1"}, nil)
	now := map[int]string{1: "one", 10: "ten", 18: "eighteen"}
	c.put(name, numbered(now))
	c.ask(200, "snapshot", object{"name": "v2"}, nil)
	var d struct {
		Paths []struct {
			Raw            []byte
			Added, Removed int
		}
	}
	c.ask(200, "changes", object{"a": "v1", "lines": true}, &d)
	if len(d.Paths) != 1 || string(d.Paths[0].Raw) != name || d.Paths[0].Added != 3 || d.Paths[0].Removed != 3 {
		t.Fatalf("the changes are %+v", d)
	}
	hunks := func(b string) (ids []string) {
		t.Helper()
		var list struct{ Hunks []struct{ ID string } }
		c.ask(200, "hunks", object{"a": "v1", "b": b, "path": path}, &list)
		for _, h := range list.Hunks {
			ids = append(ids, h.ID)
		}
		return ids
	}
	ids := hunks("")
	if len(ids) != 3 {
		t.Fatalf("the hunks are %q", ids)
	}
	var done struct {
		Changed int
		Undo    string
	}
	c.ask(200, "restore-hunk", object{"name": "v1", "path": path, "id": ids[0], "dry_run": true}, &done)
	c.has(name, numbered(now))
	c.ask(200, "restore-hunk", object{"name": "v1", "path": path, "id": ids[0]}, &done)
	now[1] = "\xfe"
	c.has(name, numbered(now))
	c.ask(200, "restore", object{"name": done.Undo}, nil)
	now[1] = "one"
	c.has(name, numbered(now))
	// Others change the file meanwhile: elsewhere, and in the hunk.
	now[10] = "TEN"
	c.put(name, numbered(now))
	c.ask(409, "restore-hunk", object{"name": "v1", "path": path, "id": ids[1]}, nil)
	c.ask(200, "restore-hunk", object{"name": "v1", "path": path, "id": ids[2]}, nil)
	delete(now, 18)
	c.has(name, numbered(now))
	// The hunk of two snapshots is restored where its lines are still the same.
	ids = hunks("v2")
	c.ask(409, "restore-hunk", object{"name": "v1", "b": "v2", "path": path, "id": ids[1]}, nil)
	c.ask(200, "restore-hunk", object{"name": "v1", "b": "v2", "path": path, "id": ids[0]}, nil)
	now[1] = "\xfe"
	c.has(name, numbered(now))
	c.ask(400, "restore-hunk", object{"name": "v1", "path": ".", "id": ids[0]}, nil)
}

// TestConflict: the parts of a conflict are shown, and a merge takes what was decided about
// them, if they are still the same.
func TestConflict(t *testing.T) {
	c := newClient(t)
	c.put("f", numbered(nil))
	c.put("g", "base\n")
	c.ask(200, "fork", object{"name": "try"}, nil)
	c.put("f", numbered(map[int]string{1: "same", 5: "ours", 10: "ours"}))
	c.put(".forks/try/f", numbered(map[int]string{1: "same", 10: "theirs", 15: "theirs"}))
	c.put("g", "ours\n")
	c.put(".forks/try/g", "theirs\n")
	var refused struct {
		Kind   string
		Result struct{ Conflicts []string }
	}
	c.ask(409, "merge", object{"fork": "try", "dry_run": true}, &refused)
	if refused.Kind != "conflict" || fmt.Sprint(refused.Result.Conflicts) != "[f g]" {
		t.Errorf("refused: %+v", refused)
	}
	kinds, decided := c.decide(object{"fork": "try", "path": "f"})
	if kinds != "same both same ours same conflict same theirs same" {
		t.Fatalf("the parts are %s", kinds)
	}
	merge := object{"fork": "try", "contents": decided, "resolve": object{"g": "theirs"}}
	c.put("f", numbered(map[int]string{10: "more"}))
	c.ask(409, "merge", merge, nil)
	c.put("f", numbered(map[int]string{1: "same", 5: "ours", 10: "ours"}))
	c.ask(200, "merge", merge, nil)
	c.has("f", numbered(map[int]string{1: "same", 5: "ours", 10: "ours\ntheirs", 15: "theirs"}))
	c.has("g", "theirs\n")
	var list struct {
		Undo, Head string
		Snapshots  []struct{ Name, Message string }
	}
	c.ask(200, "list", object{}, &list)
	if len(list.Snapshots) != 1 || list.Undo != list.Snapshots[0].Name || list.Head != list.Undo || list.Snapshots[0].Message != "before merge of try" {
		t.Errorf("the list is %+v", list)
	}
}

// decide asks for a conflict, and takes both sides where both changed the lines.
func (c *client) decide(conflict object) (kinds string, contents object) {
	c.t.Helper()
	var shown struct {
		Of    string
		Parts []struct {
			Kind               string
			Base, Ours, Theirs []string
		}
	}
	c.ask(200, "conflict", conflict, &shown)
	var all, text []string
	for _, p := range shown.Parts {
		all = append(all, p.Kind)
		switch p.Kind {
		case "theirs":
			text = append(text, p.Theirs...)
		case "conflict":
			text = append(append(text, p.Ours...), p.Theirs...)
		default:
			text = append(text, p.Ours...)
		}
	}
	return strings.Join(all, " "), object{"f": object{"of": shown.Of, "text": strings.Join(text, "")}}
}

// TestConflictIsAsMerged: what conflict shows of a file is what merge writes: the parts without a conflict are the text,
// and other files merge by the same rules if their lines cannot be shown.
func TestConflictIsAsMerged(t *testing.T) {
	c := newClient(t)
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", filepath.Join(c.m.Path(), dir)}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	long := strings.Repeat(strings.Repeat("x", 63)+"\n", 1<<15)
	files := map[string]struct{ before, after, hidden string }{ // the text around the line that both sides or one of them change
		"text":   {"a\n", "b\nc\n", ""},
		"latin1": {"caf\xe9\n", "b\nc\n", "not UTF-8"},
		"large":  {"a\n", long, "too large to show"},
		"zero":   {"\x00\n", "b\nc\n", ""},
	}
	put := func(dir, line, end string) {
		for name, f := range files {
			c.put(dir+name, f.before+"line\n"+f.after+end)
			c.put(dir+name+"-both", f.before+line+f.after)
		}
	}
	put("", "line\n", "end\n")
	git("", "init", "-q")
	c.ask(200, "fork", object{"name": "try"}, nil)
	put("", "ours\n", "end\n")
	put(".forks/try/", "theirs\n", "another end\n")
	for name, f := range files {
		c.put(name, "first\n"+f.before+"line\n"+f.after+"end\n")
	}
	git("", "config", "user.name", "ours")
	git(".forks/try", "config", "user.email", "theirs")

	merge, refused := object{"fork": "try", "dry_run": true}, struct{ Result struct{ Conflicts []string } }{}
	c.ask(409, "merge", merge, &refused)
	inConflict, texts, resolve := refused.Result.Conflicts, map[string]string{}, object{}
	for name := range files {
		for _, path := range []string{name, name + "-both"} {
			resolve[path], texts[path] = "theirs", c.shown(path, slices.Contains(inConflict, path), files[name].hidden, name == "zero")
		}
	}
	texts[".git/config"] = c.shown(".git/config", false, "", false)
	if len(inConflict) != len(files)+1 {
		t.Errorf("in conflict: %q", inConflict)
	}
	c.ask(200, "merge", object{"fork": "try", "resolve": resolve}, nil)
	for path, text := range texts {
		if text != "" {
			c.has(path, text)
		}
	}
	c.has("latin1", "first\ncaf\xe9\nline\nb\nc\nanother end\n")
	c.has("large", "first\na\nline\n"+long+"another end\n")
	git("", "config", "user.email")
}

// shown compares what is shown of a path with what a merge does. It returns the merged text, "" if there is none.
func (c *client) shown(path string, inConflict bool, hidden string, binary bool) string {
	c.t.Helper()
	var s struct {
		Of, Hidden    string
		Binary, Clean bool
		Parts         []struct {
			Kind         string
			Ours, Theirs []string
		}
	}
	c.ask(200, "conflict", object{"fork": "try", "path": path}, &s)
	hasParts := hidden == "" && !binary
	if s.Hidden != hidden || s.Binary != binary || s.Clean == inConflict || (s.Of != "") != hasParts || len(s.Parts) > 0 != hasParts {
		c.t.Errorf("%s, in conflict: %t: %+v", path, inConflict, s)
	}
	var text []string
	for _, p := range s.Parts {
		switch p.Kind {
		case "conflict":
			if !inConflict {
				c.t.Errorf("%s merges, but %q and %q conflict", path, p.Ours, p.Theirs)
			}
			return ""
		case "theirs":
			text = append(text, p.Theirs...)
		default:
			text = append(text, p.Ours...)
		}
	}
	return strings.Join(text, "")
}

// TestConflictOfUndo: the parts of a file that others changed after several turns of an actor are
// shown, and an undo takes what was decided about them, if the file is still the same.
func TestConflictOfUndo(t *testing.T) {
	c := newClient(t)
	turn := func(name string, others map[int]string) {
		t.Helper()
		cmd := exec.Command("sh", "-c", `"$0" actor robot --pid $$ && printf %s "$1" > f && mkdir .snapshots/"$2"`, harness.Binary(t), numbered(others), name)
		cmd.Dir = c.m.Path()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	c.put("f", numbered(nil))
	c.ask(200, "snapshot", object{"name": "v1"}, nil)
	turn("t1", map[int]string{5: "robot", 15: "robot"})
	turn("t2", map[int]string{5: "robot again", 15: "robot"})
	mine := map[int]string{5: "mine", 10: "mine", 15: "robot"}
	c.put("f", numbered(mine))
	c.ask(409, "undo-by", object{"by": "robot"}, nil)
	kinds, decided := c.decide(object{"by": "robot", "path": "f"})
	if kinds != "same conflict same ours same theirs same" {
		t.Fatalf("the parts are %s", kinds)
	}
	undo := object{"by": "robot", "contents": decided}
	c.put("f", "others\n")
	c.ask(409, "undo-by", undo, nil)
	c.put("f", numbered(mine))
	var done struct{ Changed int }
	c.ask(200, "undo-by", undo, &done)
	c.has("f", numbered(map[int]string{5: "mine\nline 5", 10: "mine"}))
	if done.Changed != 1 {
		t.Errorf("%d files changed", done.Changed)
	}
	c.ask(200, "restore", object{"name": "undo"}, nil)
	c.has("f", numbered(mine))
	// Only its last turn.
	if kinds, _ := c.decide(object{"by": "robot", "since": "t1", "path": "f"}); kinds != "same conflict same ours same" {
		t.Errorf("since t1 the parts are %s", kinds)
	}
	c.ask(404, "conflict", object{"by": "nobody", "path": "f"}, nil)
	c.ask(404, "conflict", object{"by": "robot", "path": "none"}, nil)
	var history struct {
		Entries []struct {
			Snapshot string
			Actors   []string
		}
	}
	c.ask(200, "history", object{"path": "f"}, &history)
	for _, e := range history.Entries {
		if byRobot := fmt.Sprint(e.Actors) == "[robot]"; byRobot != strings.HasPrefix(e.Snapshot, "t") || len(e.Actors) != 1 {
			t.Errorf("%q is by %v", e.Snapshot, e.Actors)
		}
	}
}

// TestBlameAt: a file is blamed as it was in a snapshot.
func TestBlameAt(t *testing.T) {
	c := newClient(t)
	c.put("f", "one\n")
	c.ask(200, "snapshot", object{"name": "v1"}, nil)
	c.put("f", "one\ntwo\n")
	c.ask(200, "snapshot", object{"name": "v2"}, nil)
	c.put("f", "ONE\ntwo\n")
	for at, want := range map[string]string{"v1": "[{one v1}]", "v2": "[{one v1} {two v2}]", "": "[{ONE } {two v2}]"} {
		var got struct {
			Lines []struct{ Text, Snapshot string }
		}
		c.ask(200, "blame", object{"path": "f", "snapshot": at}, &got)
		if fmt.Sprint(got.Lines) != want {
			t.Errorf("at %q: %v, want %s", at, got.Lines, want)
		}
	}
	c.ask(400, "blame", object{"path": "f", "snapshot": "base"}, nil)
	c.ask(404, "blame", object{"path": "f", "snapshot": "none"}, nil)
}
