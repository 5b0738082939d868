package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	a      *app
	server *mcp.Server
}

func annotations(e service.Effect) *mcp.ToolAnnotations {
	destructive, open := e == service.Destroys || e == service.Executes, e == service.Executes || e == service.Sends
	return &mcp.ToolAnnotations{
		ReadOnlyHint: e == service.Reads, DestructiveHint: &destructive, IdempotentHint: e == service.Reads, OpenWorldHint: &open,
	}
}

// commonArgs has the arguments of a tool that are not arguments of its operation.
type commonArgs struct {
	Workspace string `json:"workspace,omitempty" jsonschema:"the fork to work in, NAME or FORK/FORK"`
	Format    string `json:"format,omitempty" jsonschema:"text or json"`
	pageRange
}

// commonArgNames returns the names of the common arguments that the tool has in the set of tools with the given
// index.
func (t *tool) commonArgNames(setIndex int) []string {
	switch {
	case t.needsNoWorkspace:
		return nil
	case setIndex == service.ToolsSnapshots && t.isPaged:
		return []string{"workspace", "format", "start_index", "max_length"}
	case t.isPaged:
		return []string{"workspace", "start_index", "max_length"}
	}
	return []string{"workspace"}
}

// A toolInput describes the arguments of a tool. argsType is a struct type with a field for each argument. The JSON
// name of the field is the name that the argument has in the tool.
type toolInput struct {
	argsType          reflect.Type
	fieldIndex        [][]int // for each argument, the index of the field that it sets
	operationArgCount int     // the number of arguments that belong to the operation; the remaining ones belong to commonArgs
}

func (t *tool) describeInput(setIndex int) *toolInput {
	in := &toolInput{}
	var fields []reflect.StructField
	add := func(from reflect.Type, arg string) {
		name, fieldName, renamed := strings.Cut(arg, "=")
		if !renamed {
			fieldName = name
		}

		all := reflect.VisibleFields(from)
		f := all[slices.IndexFunc(all, func(f reflect.StructField) bool { return service.JSONName(f) == fieldName })]
		in.fieldIndex = append(in.fieldIndex, f.Index)
		tag := reflect.StructTag(strings.Replace(string(f.Tag), `json:"`+fieldName, `json:"`+name, 1))
		if renamed && f.Type.Kind() == reflect.Slice { // the argument of the tool is a single element of the list
			f.Type = f.Type.Elem()
		}

		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("Arg%d", len(fields)), Type: f.Type, Tag: tag})
	}

	for _, arg := range strings.Fields(t.Args) {
		add(reflect.TypeOf(t.preset), arg)
	}

	in.operationArgCount = len(fields)
	for _, arg := range t.commonArgNames(setIndex) {
		add(reflect.TypeFor[commonArgs](), arg)
	}

	in.argsType = reflect.StructOf(fields)
	return in
}

// splitArguments returns the arguments of the operation, and the common arguments. For arguments that the call does
// not have, it uses the values in preset. args is a pointer to a value of the type argsType.
func (in *toolInput) splitArguments(args, preset any) (_ any, c commonArgs) {
	given, req := reflect.ValueOf(args).Elem(), reflect.New(reflect.TypeOf(preset)).Elem()
	req.Set(reflect.ValueOf(preset))

	for i, at := range in.fieldIndex {
		to, v := req, given.Field(i)
		if i >= in.operationArgCount {
			to = reflect.ValueOf(&c).Elem()
		}

		to = to.FieldByIndex(at)
		switch {
		case v.IsZero(): // the value of preset stays
		case v.Type() != to.Type():
			to.Set(reflect.Append(to, v))
		default:
			to.Set(v)
		}
	}

	return req.Interface(), c
}

// mustSchema returns the schema of a type. It panics if there is none, which a test would find.
func mustSchema(t reflect.Type) *jsonschema.Schema {
	s, err := service.Schema(t)
	if err != nil {
		panic(err)
	}
	return s
}

// outlineSchema reduces a schema of results to the names of the required fields. The list of tools is part of each
// session of a model, so it must be short.
func outlineSchema(s *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: s.Type, Required: s.Required}
}

// A notifyFunc sends a progress notification, if the client asked for progress notifications.
type notifyFunc func(message string, done, total int)

// addTool adds a tool to the server. args is the type of its arguments, and inputSchema is their schema. The function do
// does the work, and gets a pointer to the arguments.
func (m *mcpServer) addTool(t *tool, name string, args reflect.Type, inputSchema *jsonschema.Schema, resultType reflect.Type, do func(ctx context.Context, args any, notify notifyFunc) (string, any, error)) {
	spec := &mcp.Tool{
		Name: name, Title: t.Title, Description: t.About, Annotations: annotations(t.effect),
		InputSchema: inputSchema, OutputSchema: outlineSchema(mustSchema(resultType)),
	}
	m.server.AddTool(spec, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var text string
		var result any
		given := reflect.New(args).Interface()
		err := decodeArguments([]byte(cmp.Or(string(r.Params.Arguments), "{}")), inputSchema, given)
		if err == nil {
			text, result, err = do(ctx, given, func(message string, done, total int) {
				if token := r.Params.GetProgressToken(); token != nil {
					_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // it fails if the client has ended
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

// decodeArguments reads the arguments of a call from a JSON object, and checks them by their schema.
func decodeArguments(object []byte, schema *jsonschema.Schema, target any) error {
	given, err := strictjson.Object(object, target)
	if unknown, ok := errors.AsType[*strictjson.UnknownFieldError](err); ok {
		e := errs.Fail(errs.Invalid, "unknown argument %q: the arguments are %s", unknown.Name, strings.Join(slices.Sorted(slices.Values(unknown.Fields)), ", "))
		return service.WithSuggestion(e, unknown.Name, unknown.Fields, "")
	}
	if err != nil {
		return errs.Fail(errs.Invalid, "the argument %w", err)
	}

	for _, name := range schema.Required {
		if !given[name] {
			return errs.Fail(errs.Invalid, "the argument %s is missing: %s", name, schema.Properties[name].Description)
		}
	}

	return nil
}

func (m *mcpServer) addOperationTool(setIndex int, t *tool) {
	out := t.resultType
	if t.isPaged {
		out = reflect.TypeFor[page]()
	}

	in := t.describeInput(setIndex)
	schema := mustSchema(in.argsType)
	if schema.Properties == nil { // some clients expect an object, even if it is empty
		schema.Properties = map[string]*jsonschema.Schema{}
	}

	m.addTool(t, t.Names[setIndex], in.argsType, schema, out, func(ctx context.Context, args any, notify notifyFunc) (string, any, error) {
		req, c := in.splitArguments(args, t.preset)
		result, err := m.callTool(ctx, t, c.Workspace, req, notify)
		if err != nil {
			return "", nil, err
		}

		service.Shorten(result, maxListedElements)
		shown := t.textForm.Text(req, result)

		switch {
		case !t.isPaged:
			return strings.TrimSuffix(shown, "\n"), result, nil
		case c.Format == "json":
			if shown, err = t.resultJSON(result); err != nil {
				return "", nil, err
			}
		case c.Format != "" && c.Format != "text":
			return "", nil, errs.Fail(errs.Invalid, "the argument format is text or json, not %q", c.Format)
		}

		return c.cutPage(shown)
	})
}

// callTool calls the operation of a tool in a fork of the server's workspace or, for "", in the workspace itself. It
// returns a pointer to a value of the operation's result type, to a text, or to a list of events.
func (m *mcpServer) callTool(ctx context.Context, t *tool, workspace string, req any, notify notifyFunc) (any, error) {
	if t.needsNoWorkspace {
		return t.run(ctx, m.a, locate.Location{}, req, notify)
	}
	p, err := m.locationOf(workspace)
	if err != nil {
		return nil, err
	}
	args, err := withRelativePaths(p, req)
	if err != nil {
		return nil, err
	}
	if t.run != nil {
		return t.run(ctx, m.a, p, args, notify)
	}

	var text strings.Builder
	var list []events.Event
	result := reflect.New(t.op.Result).Interface()
	err = m.a.callWithStreams(ctx, p, args, client.Streams{Out: &text, Item: func(line json.RawMessage) error {
		var e events.Event
		err := json.Unmarshal(line, &e)
		list = append(list, e)
		return err
	}}, result)
	if err != nil {
		if paths := service.Conflicts(result); len(paths) > 0 {
			choices := "ours or theirs"
			if slices.Contains(strings.Fields(t.Args), "resolve") {
				choices = "ours, theirs or resolve"
			}

			err = errs.Fail(errs.ScriptKind(err), "%s; decide with %s:\n%s", errs.ErrorOf(err).Msg, choices, strings.Join(cutToListed(paths), "\n"))
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

// locationOf returns the location of a fork of the server's workspace, or of the workspace itself for "".
func (m *mcpServer) locationOf(workspace string) (locate.Location, error) {
	p, err := m.a.location()
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

	return m.a.locationOf(root)
}

// withRelativePaths makes the paths in the arguments relative to the root of the workspace.
func withRelativePaths(p locate.Location, args any) (_ any, err error) {
	out := reflect.New(reflect.TypeOf(args)).Elem()
	out.Set(reflect.ValueOf(args))

	for i := 0; i < out.NumField() && err == nil; i++ {
		switch f := out.Field(i).Addr().Interface().(type) {
		case *naming.BytePath:
			if *f != "" {
				*f, err = workspacePath(p, string(*f))
			}
		case *[]naming.BytePath:
			for j := 0; j < len(*f) && err == nil; j++ {
				(*f)[j], err = workspacePath(p, string((*f)[j]))
			}
		}
	}

	return out.Interface(), err
}

// toolError returns an error without hints about commands, which the caller of a tool cannot run.
func toolError(err error) error {
	e := *errs.ErrorOf(err)
	e.Msg, _, _ = strings.Cut(e.Msg, "; see .snapshots/list or `amberfs list`")
	if strings.Contains(e.Hint, "amberfs ") || strings.Contains(e.Hint, "--") {
		e.Hint = ""
	}
	return &e
}
