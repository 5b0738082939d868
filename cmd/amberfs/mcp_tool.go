package main

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/strictjson"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/naming"
)

type mcpServer struct {
	a *app
	s *mcp.Server
}

func annotations(e service.Effect) *mcp.ToolAnnotations {
	destructive, open := e == service.Destroys || e == service.Executes, e == service.Executes || e == service.Sends
	return &mcp.ToolAnnotations{
		ReadOnlyHint: e == service.Reads, DestructiveHint: &destructive, IdempotentHint: e == service.Reads, OpenWorldHint: &open,
	}
}

// arguments of a call, by their names in the tool.
type arguments = map[string]json.RawMessage

// common are the arguments that do not belong to the operation.
type common struct {
	Workspace string `json:"workspace,omitempty" jsonschema:"the fork to work in, NAME or FORK/FORK"`
	Format    string `json:"format,omitempty" jsonschema:"text or json"`
	paging
}

// fields are the arguments of the tool, with those of the operation.
func (t *tool) fields() (names []string, field map[string]string) {
	field = map[string]string{}
	for _, arg := range strings.Fields(t.Args) {
		name, of, renamed := strings.Cut(arg, "=")
		if !renamed {
			of = name
		}

		names, field[name] = append(names, name), of
	}

	return names, field
}

// common lists the arguments that the tool takes besides.
func (t *tool) common(set int) []string {
	switch {
	case t.anywhere:
		return nil
	case set == service.ToolsSnapshots && t.pages:
		return []string{"workspace", "format", "start_index", "max_length"}
	case t.pages:
		return []string{"workspace", "start_index", "max_length"}
	}
	return []string{"workspace"}
}

func (t *tool) schema(set int) *jsonschema.Schema {
	of, others := mustSchema(reflect.TypeOf(t.preset)), mustSchema(reflect.TypeFor[common]())
	out := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	names, field := t.fields()
	for _, name := range names {
		p := of.Properties[field[name]]
		if one(p, name, field[name]) {
			p = &jsonschema.Schema{Type: "string", Description: p.Description}
		}

		out.Properties[name] = p
		if slices.Contains(of.Required, field[name]) {
			out.Required = append(out.Required, name)
		}
	}

	for _, name := range t.common(set) {
		out.Properties[name] = others.Properties[name]
	}

	return out
}

// one reports whether an argument is the one element of a list.
func one(field *jsonschema.Schema, name, of string) bool { return field.Type == "array" && name != of }

// mustSchema describes a type that is known when the program is built.
func mustSchema(t reflect.Type) *jsonschema.Schema {
	s, err := service.Schema(t)
	if err != nil {
		panic(err)
	}
	return s
}

// outline is a schema of results that names the fields that each has, and no more: the list
// of tools is part of each session of a model, so it must be short.
func outline(s *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: s.Type, Required: s.Required}
}

// A notifier sends a progress notification, if the client asked for them.
type notifier func(message string, done, total int)

func (m *mcpServer) add(t *tool, name string, in *jsonschema.Schema, out reflect.Type, do func(context.Context, arguments, notifier) (string, any, error)) {
	spec := &mcp.Tool{
		Name: name, Title: t.Title, Description: t.About, Annotations: annotations(t.effect),
		InputSchema: in, OutputSchema: outline(mustSchema(out)),
	}
	m.s.AddTool(spec, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args arguments
		var err error
		if len(r.Params.Arguments) > 0 {
			err = strictjson.Decode(r.Params.Arguments, &args)
		}
		if err == nil {
			err = checkArguments(args, in)
		}

		var text string
		var result any
		if err == nil {
			text, result, err = do(ctx, args, func(message string, done, total int) {
				if token := r.Params.GetProgressToken(); token != nil {
					_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // the client may be gone
						ProgressToken: token, Message: message, Progress: float64(done), Total: float64(total)})
				}
			})
		}

		if err != nil {
			failed := &mcp.CallToolResult{}
			failed.SetError(toolError(err))
			return failed, nil
		}

		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: result}, nil
	})
}

func checkArguments(args arguments, in *jsonschema.Schema) error {
	known := slices.Sorted(maps.Keys(in.Properties))

	for name := range args {
		if in.Properties[name] == nil {
			e := errs.Fail(errs.Invalid, "unknown argument %q: the arguments are %s", name, strings.Join(known, ", "))
			if like := service.Nearest(name, known); like != "" {
				return e.WithHint("did you mean %q?", like)
			}

			return e
		}
	}

	if name := service.Missing(args, in.Required); name != "" {
		return errs.Fail(errs.Invalid, "the argument %s is missing: %s", name, in.Properties[name].Description)
	}

	return nil
}

func (m *mcpServer) offer(set int, t *tool) {
	out := t.out
	if t.pages {
		out = reflect.TypeFor[page]()
	}

	m.add(t, t.Names[set], t.schema(set), out, func(ctx context.Context, args arguments, notify notifier) (string, any, error) {
		req, c, err := t.request(args)
		if err != nil {
			return "", nil, err
		}

		result, err := m.call(ctx, t, c.Workspace, req, notify)
		if err != nil {
			return "", nil, err
		}

		service.Shorten(result, maxListed)
		shown := t.form.Text(req.Interface(), result)

		switch {
		case !t.pages:
			return strings.TrimSuffix(shown, "\n"), result, nil
		case c.Format == "json":
			if shown, err = t.inJSON(result); err != nil {
				return "", nil, err
			}
		case c.Format != "" && c.Format != "text":
			return "", nil, errs.Fail(errs.Invalid, "the argument format is text or json, not %q", c.Format)
		}

		return c.of(shown)
	})
}

// call asks for the operation of a tool in a fork of the server's workspace, or in that
// itself. The result is a pointer to the operation's type of results, to a text, or to a
// list of events.
func (m *mcpServer) call(ctx context.Context, t *tool, workspace string, req reflect.Value, notify notifier) (any, error) {
	if t.anywhere {
		return t.own(ctx, m.a, locate.Place{}, req.Interface(), notify)
	}
	p, err := m.place(workspace)
	if err != nil {
		return nil, err
	}
	args, err := relative(p, req.Interface())
	if err != nil {
		return nil, err
	}
	if t.own != nil {
		return t.own(ctx, m.a, p, args, notify)
	}

	var text strings.Builder
	var list []events.Event
	result := reflect.New(t.op.Result).Interface()
	err = m.a.exchange(ctx, p, args, client.Exchange{Out: &text, Item: func(line json.RawMessage) error {
		var e events.Event
		err := json.Unmarshal(line, &e)
		list = append(list, e)
		return err
	}}, result)
	if err != nil {
		if paths := service.Conflicts(result); len(paths) > 0 {
			how := "ours or theirs"
			if slices.Contains(strings.Fields(t.Args), "resolve") {
				how = "ours, theirs or resolve"
			}

			err = errs.Fail(errs.ScriptKind(err), "%s; decide with %s:\n%s", errs.ErrorOf(err).Msg, how, strings.Join(shorten(paths), "\n"))
		}
		return nil, err
	}

	switch t.op.Output {
	case service.Text:
		text := text.String()
		return &text, nil
	case service.Events:
		return &list, nil
	}

	return result, nil
}

// place is where a fork of the server's workspace is, or that itself.
func (m *mcpServer) place(workspace string) (locate.Place, error) {
	p, err := m.a.place()
	if err != nil || workspace == "" {
		return p, err
	}

	root, ok := p.Root()
	if !ok {
		return p, errs.Fail(errs.NotExist, "the forks of this workspace cannot be reached from here")
	}

	for name := range strings.SplitSeq(workspace, "/") {
		if err := naming.Check(name); err != nil {
			return p, err
		}
		root = filepath.Join(root, naming.ForksDir, name)
	}

	return m.a.placeOf(root)
}

// request reads the arguments of a call: those of the operation, and the others.
func (t *tool) request(args arguments) (req reflect.Value, c common, err error) {
	req = reflect.New(reflect.TypeOf(t.preset)).Elem()
	req.Set(reflect.ValueOf(t.preset))
	schema := mustSchema(req.Type())
	_, field := t.fields()

	for name, raw := range args {
		of, own := field[name]
		into := req.Addr().Interface()
		if !own {
			of, into = name, &c
		} else if one(schema.Properties[of], name, of) {
			raw = slices.Concat([]byte("["), raw, []byte("]"))
		}

		b, err := json.Marshal(arguments{of: raw})
		if err == nil {
			err = strictjson.Decode(b, into)
		}
		if err != nil {
			return req, c, errs.Fail(errs.Invalid, "the argument %s: %w", name, err)
		}
	}

	return req, c, nil
}

// relative makes the paths in the arguments relative to the root of the workspace.
func relative(p locate.Place, args any) (_ any, err error) {
	out := reflect.New(reflect.TypeOf(args)).Elem()
	out.Set(reflect.ValueOf(args))

	for i := 0; i < out.NumField() && err == nil; i++ {
		switch f := out.Field(i).Addr().Interface().(type) {
		case *naming.BytePath:
			if *f != "" {
				*f, err = relPath(p, string(*f))
			}
		case *[]naming.BytePath:
			for j := 0; j < len(*f) && err == nil; j++ {
				(*f)[j], err = relPath(p, string((*f)[j]))
			}
		}
	}

	return out.Interface(), err
}

// toolError is an error without hints about commands, which a tool's caller cannot run.
func toolError(err error) error {
	e := *errs.ErrorOf(err)
	e.Msg, _, _ = strings.Cut(e.Msg, "; see .snapshots/list or `amberfs list`")
	if strings.Contains(e.Hint, "amberfs ") || strings.Contains(e.Hint, "--") {
		e.Hint = ""
	}
	return &e
}
