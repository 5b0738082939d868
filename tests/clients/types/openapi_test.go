package types_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/amberfs/amberfs/tests/must"
)

// A schema is one of the page: that of a JSON value.
type schema struct {
	Ref         string             `yaml:"$ref"`
	Type        string             `yaml:"type"`
	Format      string             `yaml:"format"`
	Description string             `yaml:"description"`
	Enum        []string           `yaml:"enum"`
	Properties  map[string]*schema `yaml:"properties"`
	Required    []string           `yaml:"required"`
	Items       *schema            `yaml:"items"`
	Additional  *schema            `yaml:"additionalProperties"`
}

// UnmarshalYAML reads `true`, the schema of anything, as well.
func (s *schema) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return nil
	}
	type plain schema
	return n.Decode((*plain)(s))
}

// name is that of the schema which s refers to, or "".
func (s *schema) name() string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

func (s *schema) fields() []string { return slices.Sorted(maps.Keys(s.Properties)) }

type content map[string]struct {
	Schema *schema `yaml:"schema"`
}

type operation struct {
	Summary     string `yaml:"summary"`
	RequestBody struct {
		Content content `yaml:"content"`
	} `yaml:"requestBody"`
	Responses map[string]struct {
		Content content `yaml:"content"`
	} `yaml:"responses"`
}

// An op is an operation as the clients know it.
type op struct {
	name, about string
	args        string // the name of a schema
	result      string // the name of a schema; that of an item if stream is "events"
	stream      string // "", text, bytes or events
}

// page is what the clients are made of.
type page struct {
	ops     []op
	schemas map[string]*schema
	kinds   []string // of errors
	names   map[string]string
}

var streams = map[string]string{
	"application/json": "", "text/plain; charset=utf-8": "text", "application/octet-stream": "bytes",
	"application/x-tar": "bytes", "text/event-stream": "events",
}

// read reads docs/api/openapi.yaml. Operations that read a stream are left out.
func read(t *testing.T) *page {
	t.Helper()
	b, err := os.ReadFile("../../../docs/api/openapi.yaml")
	must.OK(t, err)
	var file struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]*schema }
	}
	must.OK(t, yaml.Unmarshal(b, &file))
	p := &page{schemas: file.Components.Schemas, kinds: file.Components.Schemas["Error"].Properties["kind"].Enum}
	for _, url := range slices.Sorted(maps.Keys(file.Paths)) {
		o := file.Paths[url]["post"]
		body := o.RequestBody.Content["application/json"].Schema
		if body == nil {
			continue
		}
		one := op{name: path.Base(url), about: o.Summary, args: body.name()}
		for kind, content := range o.Responses["200"].Content {
			var known bool
			if one.stream, known = streams[kind]; !known {
				t.Fatalf("%s answers with %s", url, kind)
			}
			if content.Schema != nil {
				one.result = content.Schema.name()
			}
		}
		p.ops = append(p.ops, one)
	}
	p.nameAll()
	return p
}

// reachable adds a schema, and those that it refers to, to a set.
func (p *page) reachable(name string, in map[string]bool) {
	if name == "" || in[name] {
		return
	}
	in[name] = true
	var walk func(*schema)
	walk = func(s *schema) {
		if s == nil {
			return
		}
		p.reachable(s.name(), in)
		walk(s.Items)
		walk(s.Additional)
		for _, f := range s.Properties {
			walk(f)
		}
	}
	walk(p.schemas[name])
}

// nameAll gives types their names. The arguments of fork are ForkArgs. Of PACKAGE.Type
// remains Type, unless that is in use.
func (p *page) nameAll() {
	results, count := map[string]bool{}, map[string]int{}
	for _, o := range p.ops {
		p.reachable(o.result, results)
	}
	for name := range results {
		_, last, _ := strings.Cut("."+name, ".")
		count[last[strings.LastIndexByte(last, '.')+1:]]++
	}
	p.names = map[string]string{}
	for name := range p.schemas {
		pkg, last, ok := strings.Cut(name, ".")
		switch {
		case !ok:
			last = name
		case count[last] > 1:
			last = pascal(pkg) + last
		}
		p.names[name] = last
	}
	p.names["None"] = "Nothing" // Python has a None
	for _, o := range p.ops {
		if !results[o.args] {
			p.names[o.args] = pascal(o.name) + "Args"
		}
	}
}

// used are the schemas that arguments (or results) are made of, by the names of their types.
func (p *page) used(of func(op) string) []string {
	in := map[string]bool{}
	for _, o := range p.ops {
		p.reachable(of(o), in)
	}
	return slices.SortedFunc(maps.Keys(in), func(a, b string) int { return strings.Compare(p.names[a], p.names[b]) })
}

func argsOf(o op) string   { return o.args }
func resultOf(o op) string { return o.result }

// pascal writes delete-fork as DeleteFork.
func pascal(name string) string {
	var out strings.Builder
	for _, word := range strings.Split(name, "-") {
		fmt.Fprint(&out, strings.ToUpper(word[:1]), word[1:])
	}
	return out.String()
}

// errorClass is the name of the class of a kind of error.
func errorClass(kind string) string { return pascal(kind) + "Error" }
