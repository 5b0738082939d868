// Package api_test compares docs/api/openapi.yaml with what a running daemon answers.
package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// A page is docs/api/openapi.yaml.
type page struct {
	Paths      map[string]map[string]operation
	Components struct {
		Schemas map[string]any
	}
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct{ Schema map[string]any }
	}
	RequestBody struct {
		Content map[string]struct{ Schema map[string]any }
	} `yaml:"requestBody"`
}

func read(t *testing.T) *page {
	t.Helper()
	b, err := os.ReadFile("../../docs/api/openapi.yaml")
	must.OK(t, err)
	p := new(page)
	must.OK(t, yaml.Unmarshal(b, p))
	return p
}

// strict lets an object have no fields that its schema does not name.
func strict(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, one := range v {
			strict(one)
		}
	case []any:
		for _, one := range v {
			strict(one)
		}
	}
}

// check compares a JSON value with a schema of the page.
func (p *page) check(t *testing.T, what string, schema map[string]any, value []byte) {
	t.Helper()
	strict(p.Components.Schemas)
	whole, err := json.Marshal(map[string]any{"$defs": p.Components.Schemas, "allOf": []any{schema}})
	must.OK(t, err)
	var s jsonschema.Schema
	must.OK(t, json.Unmarshal(bytes.ReplaceAll(whole, []byte("#/components/schemas/"), []byte("#/$defs/")), &s))
	resolved, err := s.Resolve(nil)
	must.OK(t, err)
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		t.Errorf("%s: %q: %v", what, value, err)
		return
	}
	if err := resolved.Validate(v); err != nil {
		t.Errorf("%s: %s\nis not what openapi.yaml says: %v", what, value, err)
	}
}

// A request is one that succeeds, in the order of the table.
type request struct {
	op, body string
}

func requests(remote, archive string) []request {
	return []request{
		{"snapshot", `{"name":"v1","message":"m","labels":{"k":"v"},"expires":"24h","wait":true}`},
		{"snapshot", `{"name":"v2"}`}, {"snapshot", `{"name":"v3","pinned":true}`}, {"snapshot", `{"name":"v4"}`},
		{"list", `{}`}, {"record-apply", unchanged()}, {"ops", `{}`}, {"undone-apply", `{"number":1}`}, {"summaries", `{"names":["v1"]}`}, {"show", `{"name":"v1"}`}, {"size", `{"name":"v1"}`}, {"rename", `{"from":"v2","to":"second"}`}, {"undo-op", `{"number":2,"dry_run":true}`},
		{"pin", `{"names":["v1"],"pinned":true}`}, {"du", `{}`}, {"changes", `{"a":"v1"}`}, {"changed", `{"since":"v1"}`}, {"changed", `{}`},
		{"diff", `{"a":"v1"}`}, {"hunks", `{"a":"v1","path":"f"}`}, {"restore-hunk", `{"name":"v1","path":"f","id":"HUNK","dry_run":true}`}, {"file", `{"path":"f"}`}, {"history", `{"path":"f"}`},
		{"blame", `{"path":"f"}`}, {"actors", `{}`}, {"undo-by", `{"by":"unknown","dry_run":true}`},
		{"restore", `{"name":"v1","dry_run":true}`}, {"restore", `{"name":"v1"}`}, {"revert", `{"path":"f","name":"undo"}`},
		{"events", `{}`}, {"image", `{}`}, {"layer", `{"name":"v1"}`}, {"tar", `{"name":"v1"}`}, {"compact", `{"names":["v3","v4"],"name":"both"}`}, {"remove", `{"names":["second"]}`},
		{"fork", `{"name":"one","ttl":"1h"}`}, {"rename-fork", `{"from":"one","to":"two"}`}, {"claim", `{"label":"mine"}`}, {"forks", `{}`}, {"changes", `{"a":".forks/two/.snapshots/base","b":".forks/mine","lines":true}`},
		{"conflict", `{"fork":"two","path":"f"}`}, {"merge", `{"fork":"two"}`}, {"delete-fork", `{"name":"two"}`}, {"delete-fork", `{"name":"mine","discard":true}`},
		{"actor", `{"name":"tests/api"}`}, {"policy", `{}`}, {"set-policy", `{"patch":{"keep":{"turn":{"last":3,"within":"7d"}}}}`}, {"export", `{"name":"v1"}`},
		{"exported", `{"name":"v1","repo":"r","ref":"refs/x","commit":"0123456789012345678901234567890123456789"}`},
		{"freeze", `{"for":"1m"}`}, {"thaw", `{}`}, {"objects", `{"hashes":[]}`},
		{"add-remote", `{"name":"there","url":"` + remote + `"}`}, {"trust-remote", `{"remote":"there"}`}, {"remotes", `{}`}, {"push", `{"remote":"there","snapshots":["v1"]}`},
		{"remote-snapshots", `{"remote":"there"}`}, {"pull", `{"remote":"there","snapshots":["v1"],"as":"back"}`},
		{"verify-remote", `{"remote":"there","deep":true}`}, {"gc-remote", `{"remote":"there"}`},
		{"remove-pushed", `{"remote":"there","names":["v1"]}`}, {"remove-remote", `{"name":"there"}`},
		{"refresh", unchanged()}, {"import", archive}, {"gc", `{}`}, {"verify", `{}`}, {"forget", `{"paths":["f"],"dry_run":true}`}, {"verify-forgotten", `{}`}, {"handoff", `{"remote":"` + remote + `"}`}, {"handoff-back", `{}`}, {"status", `{}`}, {"umount", `{}`},
	}
}

// unchanged is the stream of a directory in which nothing changed.
func unchanged() string {
	var b strings.Builder
	_ = stream.NewWriter(&b).Close() // in memory
	return b.String()
}

// endless operations answer until the client goes.
var endless = map[string]string{"open": `{"name":"v1"}`, "open-changes": `{}`}

// changeElsewhere changes what was handed off, as another machine does, and sends it back.
func changeElsewhere(t *testing.T, line string) {
	t.Helper()
	there := filepath.Join(t.TempDir(), "there")
	cmd := exec.Command("sh", "-ec", line+" "+there+"; cd "+there+"; echo there >f; amberfs handoff --back")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PATH="+filepath.Dir(harness.Binary(t))+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestAnswers(t *testing.T) {
	p := read(t)
	m := harness.New(t, "--from", t.TempDir())
	change(t, m, "one\n")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(m.Store, "socket"))
	}
	c := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	archive, err := exec.Command("tar", "-c", "-C", "/etc", "hostname").Output()
	must.OK(t, err)
	asked, hunk := map[string]bool{}, ""
	var taken struct{ ID string }
	for _, r := range requests("file://"+filepath.Join(t.TempDir(), "remote"), string(archive)) {
		asked[r.op] = true
		r.body = strings.ReplaceAll(r.body, "HUNK", hunk)
		b := p.ask(t, c, r, taken.ID)
		if r.op == "snapshot" && taken.ID == "" {
			must.OK(t, json.Unmarshal(b, &taken))
		}
		if r.op == "hunks" {
			var list struct{ Hunks []struct{ ID string } }
			if err := json.Unmarshal(b, &list); err != nil || len(list.Hunks) != 1 {
				t.Fatalf("%s: %v", b, err)
			}
			hunk = list.Hunks[0].ID
		}
		if r.op == "handoff" {
			var done struct{ Line string }
			must.OK(t, json.Unmarshal(b, &done))
			changeElsewhere(t, done.Line)
		}
		if r.op == "snapshot" {
			change(t, m, r.body) // so that there is something to compare
		}
		if r.op == "snapshot" && strings.Contains(r.body, "v4") {
			for op, body := range endless {
				asked[op] = true
				p.first(t, c, op, body)
			}
		}
	}
	for path := range p.Paths {
		if !asked[strings.TrimPrefix(path, "/v1/")] {
			t.Errorf("nobody asks for %s", path)
		}
	}
	m.WaitUntilGone()
}

func change(t *testing.T, m *harness.Mount, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(m.Path("f"), []byte(text), 0o644))
}

// ask compares one answer with the page, and the arguments of a request too. state is the id of a state of
// the store.
func (p *page) ask(t *testing.T, c *http.Client, r request, state string) []byte {
	t.Helper()
	o, ok := p.Paths["/v1/"+r.op]["post"]
	if !ok {
		t.Errorf("openapi.yaml has no %s", r.op)
		return nil
	}
	query := ""
	switch r.op {
	case "import":
		query = "?from=tar&path=in"
	case "refresh":
		query = "?dry_run=true"
	case "record-apply":
		query = "?dir=/d&base=" + state + "&now=" + state
	default:
		p.check(t, r.op+" takes", o.RequestBody.Content["application/json"].Schema, []byte(r.body))
	}
	resp, err := c.Post("http://amberfs/v1/"+r.op+query, "", strings.NewReader(r.body))
	if err != nil {
		t.Errorf("%s: %v", r.op, err)
		return nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	kind := resp.Header.Get("Content-Type")
	content, described := o.Responses["200"].Content[kind]
	if err != nil || resp.StatusCode != http.StatusOK || !described {
		t.Errorf("%s: %s, %s, %v: %.300s", r.op, resp.Status, kind, err, b)
		return nil
	}
	if kind == "application/json" {
		p.check(t, r.op, content.Schema, b)
	}
	return b
}

// first reads the first event of an answer without an end.
func (p *page) first(t *testing.T, c *http.Client, op, body string) {
	t.Helper()
	resp, err := c.Post("http://amberfs/v1/"+op, "", strings.NewReader(body))
	must.OK(t, err)
	defer resp.Body.Close()
	var line string
	if _, err := fmt.Fscanf(resp.Body, "data: %s\n", &line); err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%s: %s %s: %v", op, resp.Status, line, err)
	}
}

// Errors have the status and the body that the page says.
func TestFailures(t *testing.T) {
	p := read(t)
	m := harness.New(t)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(m.Store, "socket"))
	}
	c := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	for path := range p.Paths {
		resp, err := c.Post("http://amberfs"+path+"?worksapce=x", "", strings.NewReader(`{}`))
		must.OK(t, err)
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s with a misspelt parameter: %s, %s, %v", path, resp.Status, b, err)
		}
		p.check(t, path, map[string]any{"$ref": "#/components/schemas/Error"}, b)
	}
}
