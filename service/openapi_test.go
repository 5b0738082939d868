package service

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
)

//go:generate go test -run TestOpenAPI -update .

var update = flag.Bool("update", false, "write docs/api/openapi.yaml")

const openapiFile = "../docs/api/openapi.yaml"

type object = map[string]any

// The description is made of the operations and their types.
func TestOpenAPI(t *testing.T) {
	var want bytes.Buffer
	want.WriteString("# Made by `go generate ./service` from the operations and their types.\n")
	e := yaml.NewEncoder(&want)
	e.SetIndent(2)
	if err := e.Encode(openapi(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(openapiFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(openapiFile)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("docs/api/openapi.yaml is not what the code says (%v): run `go generate ./service`", err)
	}
}

func openapi(t *testing.T) object {
	schemas := object{"Error": schema(t, reflect.TypeFor[fail.Error]())}
	paths := object{}
	for _, o := range ops {
		path := o.Path()
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(o.Method())] = operation(t, o, schemas)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "amberfs", "version": "1",
			"description": "What one can ask of a mounted store, over HTTP on the Unix socket STORE/socket: " +
				"curl --unix-socket STORE/socket http://amberfs/v1/snapshots. Only the user who mounted it and root may ask. " +
				"A request that takes long tells how far it is to those who accept application/x-ndjson: " +
				"lines {\"progress\":…}, and at last {\"result\":…} or {\"error\":…}. " +
				"The control file .snapshots/call takes the same operations and arguments as one JSON object, " +
				"{\"op\":\"history\",\"path\":\"src/a.py\"}, and answers {\"ok\":true,\"result\":…}, with the stream of an operation that gives one as text or items.",
		},
		"servers":    []any{object{"url": "http://amberfs"}},
		"paths":      paths,
		"components": object{"schemas": schemas},
	}
}

func operation(t *testing.T, o *Op, schemas object) object {
	result := object{"description": "done"}
	switch {
	case o.Output != "":
		result["content"] = object{o.Output: object{}}
		result["description"] = "a stream; an error after its beginning is in the trailer " + ErrorTrailer
	default:
		result["content"] = object{"application/json": object{"schema": named(t, o.Result, schemas)}}
	}
	out := object{
		"operationId": o.Name, "summary": strings.TrimSuffix(o.About, "."), "parameters": parameters(t, o),
		"responses": object{
			"200": result,
			"default": object{"description": "what went wrong, and what to do next", "content": object{
				"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}},
			}},
		},
		"x-amberfs-access": []string{"looks", "tells", "makes", "alters", "owns", "governs", "direct"}[o.Access],
	}
	if body := requestBody(t, o); body != nil {
		out["requestBody"] = body
	}
	return out
}

// parameters are those in the path and in the query.
func parameters(t *testing.T, o *Op) []any {
	out := []any{object{
		"name": workspaceParam, "in": "query", "description": "a fork, and forks of forks with / between; main without it",
		"schema": object{"type": "string"},
	}}
	args := schema(t, o.Args)
	for _, name := range properties(args) {
		inPath := slices.Contains(o.Wildcards(), name)
		if !inPath && !o.InQuery() {
			continue
		}
		p := maps.Clone(args["properties"].(object)[name].(object))
		at := object{"name": name, "in": "query", "required": inPath || required(args, name)}
		if inPath {
			at["in"] = "path"
		}
		at["description"] = p["description"]
		delete(p, "description")
		at["schema"] = p
		out = append(out, at)
	}
	return out
}

func requestBody(t *testing.T, o *Op) object {
	args := schema(t, o.Args)
	switch {
	case o.Input != "":
		return object{"required": true, "content": object{o.Input: object{}}}
	case o.InQuery():
		return nil
	case o.Body != "":
		return object{"required": true, "content": object{"application/merge-patch+json": object{"schema": object{"type": "object"}}}}
	}
	rest := maps.Clone(args)
	left := object{}
	for _, name := range properties(args) {
		left[name] = args["properties"].(object)[name]
	}
	for _, name := range o.Wildcards() {
		delete(left, name)
	}
	if len(left) == 0 {
		return nil
	}
	rest["properties"] = left
	if r, ok := rest["required"].([]any); ok {
		rest["required"] = slices.DeleteFunc(slices.Clone(r), func(n any) bool { return slices.Contains(o.Wildcards(), n.(string)) })
	}
	return object{"required": true, "content": object{"application/json": object{"schema": rest}}}
}

func properties(s object) []string {
	p, _ := s["properties"].(object)
	return slices.Sorted(maps.Keys(p))
}

func required(s object, name string) bool {
	r, _ := s["required"].([]any)
	return slices.Contains(r, any(name))
}

// named puts a schema among the components.
func named(t *testing.T, typ reflect.Type, schemas object) object {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	schemas[typ.Name()] = schema(t, typ)
	return object{"$ref": "#/components/schemas/" + typ.Name()}
}

func schema(t *testing.T, typ reflect.Type) object {
	t.Helper()
	s, err := Schema(typ)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out object
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Every operation can be called with its arguments both ways.
func TestArgumentsTravel(t *testing.T) {
	for _, o := range ops {
		args := reflect.New(o.Args).Elem()
		for i := range args.NumField() {
			fillIn(args.Field(i), i)
		}
		path, query, _, err := o.Target(args.Interface())
		if err != nil || strings.Contains(path, "{") {
			t.Errorf("%s: %s, %v", o.Name, path, err)
		}
		back := reflect.New(o.Args).Elem()
		for name, texts := range query {
			if err := set(back, name, texts); err != nil {
				t.Errorf("%s: %v", o.Name, err)
			}
		}
		if o.InQuery() && len(o.Wildcards()) == 0 && !reflect.DeepEqual(back.Interface(), args.Interface()) {
			t.Errorf("%s: %+v came as %+v", o.Name, args, back)
		}
	}
}

// fillIn gives a field some value.
func fillIn(f reflect.Value, n int) {
	switch {
	case f.Type() == reflect.TypeFor[json.RawMessage]():
		f.SetBytes([]byte(`{}`))
	case f.Kind() == reflect.String:
		f.SetString("text/ü " + strconv.Itoa(n))
	case f.Kind() == reflect.Bool:
		f.SetBool(true)
	case f.Type() == reflect.TypeFor[[]snapshot.BytePath]():
		f.Set(reflect.ValueOf([]snapshot.BytePath{"a", "\xff"}))
	case f.Type() == reflect.TypeFor[[]string]():
		f.Set(reflect.ValueOf([]string{"a", "b"}))
	case f.Type() == reflect.TypeFor[map[string]string]():
		f.Set(reflect.ValueOf(map[string]string{"k": "v=w"}))
	case f.CanInt():
		f.SetInt(int64(n + 1))
	case f.CanUint():
		f.SetUint(uint64(n + 1))
	}
}
