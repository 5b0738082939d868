package service

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/amberfs/amberfs/internal/fail"
)

//go:generate go test -run TestOpenAPI -update .

var update = flag.Bool("update", false, "write docs/api/openapi.yaml")

const openapiFile = "../docs/api/openapi.yaml"

type object = map[string]any

// TestOpenAPI makes the description out of the operations and their types. Whether it
// describes what a daemon answers is the test of tests/api.
func TestOpenAPI(t *testing.T) {
	var want bytes.Buffer
	want.WriteString("# Made by `go generate ./service` from the operations and their types.\n")
	e := yaml.NewEncoder(&want)
	e.SetIndent(2)
	if err := e.Encode(node(openapi(t))); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(openapiFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(openapiFile)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("docs/api/openapi.yaml is older than the operations (%v): run `go generate ./service`", err)
	}
}

// node writes on one line what fits there.
func node(v any) *yaml.Node {
	const line = 100 // bytes
	n := &yaml.Node{}
	if b, err := json.Marshal(v); err == nil && len(b) < line {
		n.Style = yaml.FlowStyle
	}
	switch v := v.(type) {
	case object:
		n.Kind = yaml.MappingNode
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, node(k), node(v[k]))
		}
	case []any:
		n.Kind = yaml.SequenceNode
		for _, one := range v {
			n.Content = append(n.Content, node(one))
		}
	default:
		if err := n.Encode(v); err != nil {
			panic(err)
		}
	}
	return n
}

// components are the types that a description refers to, by their names.
type components struct {
	t       *testing.T
	schemas object
	refs    map[reflect.Type]*jsonschema.Schema
}

func openapi(t *testing.T) object {
	c := &components{t: t, schemas: object{}, refs: typeSchemas()}
	failed := object{
		"description": "what went wrong, and what to do next",
		"content":     object{"application/json": object{"schema": c.ref(reflect.TypeFor[fail.Error]())}},
	}
	workspace := object{
		"name": workspaceParam, "in": "query", "description": "a fork, and forks of forks with / between; main without it",
		"schema": object{"type": "string"},
	}
	paths := object{}
	for _, o := range ops {
		at := object{"post": c.operation(o, "post")}
		if o.Output != "" {
			at["get"] = c.operation(o, "get")
		}
		paths["/v1/"+o.Name] = at
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "amberfs", "version": "1",
			"description": "What one can ask of a mounted store, over HTTP on the Unix socket STORE/socket: " +
				"curl --unix-socket STORE/socket http://amberfs/v1/list -d '{}'. Only the user who mounted it and root may ask. " +
				"A client that accepts application/x-ndjson is told how far a long request is: " +
				"lines {\"progress\":…}, and at last {\"result\":…} or {\"error\":…}. " +
				"The control file .snapshots/call takes the same requests, with the operation's name beside the arguments: " +
				"{\"op\":\"history\",\"path\":\"src/a.py\"}. It answers {\"ok\":true,\"result\":…}, with a stream as text or items.",
		},
		"servers": []any{object{"url": "http://amberfs"}},
		"paths":   paths,
		"components": object{
			"schemas": c.schemas, "responses": object{"failed": failed}, "parameters": object{workspaceParam: workspace},
		},
	}
}

func (c *components) operation(o *Op, method string) object {
	result := object{"description": "done"}
	switch {
	case o.Output != "":
		result["content"] = object{o.Output: object{}}
		result["description"] = "a stream; an error after its beginning is in the trailer " + ErrorTrailer
	default:
		result["content"] = object{"application/json": object{"schema": c.ref(o.Result)}}
	}
	parameters := []any{object{"$ref": "#/components/parameters/workspace"}}
	out := object{
		"operationId": o.Name, "summary": strings.TrimSuffix(o.About, "."),
		"responses":        object{"200": result, "default": object{"$ref": "#/components/responses/failed"}},
		"x-amberfs-access": []string{"looks", "tells", "makes", "alters", "owns", "governs", "direct"}[o.Access],
	}
	switch {
	case method == "get" || o.Input != "":
		args := c.schema(o.Args)
		fields, _ := args["properties"].(object)
		needed, _ := args["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			field := fields[name].(object)
			parameters = append(parameters, object{
				"name": name, "in": "query", "required": slices.Contains(needed, any(name)), "schema": field,
			})
		}
		if o.Input != "" {
			out["requestBody"] = object{"required": true, "content": object{o.Input: object{}}}
		} else {
			out["operationId"] = "get-" + o.Name
		}
	default:
		out["requestBody"] = object{"content": object{"application/json": object{"schema": c.ref(o.Args)}}}
	}
	out["parameters"] = parameters
	return out
}

// ref puts a type among the components, and refers to it.
func (c *components) ref(t reflect.Type) object {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := t.Name()
	if pkg := path.Base(t.PkgPath()); pkg != "service" && pkg != "fail" {
		name = pkg + "." + name
	}
	ref := "#/components/schemas/" + name
	if c.refs[t] == nil {
		c.refs[t] = &jsonschema.Schema{Ref: ref}
		c.schemas[name] = c.schema(t)
	}
	return object{"$ref": ref}
}

// schema describes a type, and refers to the structs in it.
func (c *components) schema(t reflect.Type) object {
	c.t.Helper()
	c.inside(t)
	refs := maps.Clone(c.refs)
	delete(refs, t)
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous { // its fields are written out
			delete(refs, f.Type)
		}
	}
	s, err := schemaFor(t, refs)
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		c.t.Fatal(err)
	}
	var out object
	if err := json.Unmarshal(b, &out); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// inside makes components of the structs in a type.
func (c *components) inside(t reflect.Type) {
	for _, f := range reflect.VisibleFields(t) {
		of := f.Type
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && of != reflect.TypeFor[time.Time]() && !f.Anonymous && f.IsExported() && jsonName(f) != "-" {
			c.ref(of)
		}
	}
}
