package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

// mcpServer is a server that tools are added to.
type mcpServer struct {
	a *app
	s *mcp.Server
}

// How a tool changes the workspace, as clients show it before they call one.
type effect int

const (
	reads    effect = iota // nothing
	adds                   // only new things
	replaces               // what is there; undo takes it back
	destroys
)

func (e effect) annotations(title string) *mcp.ToolAnnotations {
	destructive, open := e == replaces || e == destroys, false
	return &mcp.ToolAnnotations{
		Title: title, ReadOnlyHint: e == reads, DestructiveHint: &destructive, IdempotentHint: e == reads, OpenWorldHint: &open,
	}
}

// tool describes one.
type tool struct {
	name, title, about string
	effect             effect
}

// add adds a tool. do gives a text for the model, and the same as structured
// content.
func add[In, Out any](m *mcpServer, t tool, do func(context.Context, locate.Place, In) (string, Out, error)) {
	spec := &mcp.Tool{
		Name: t.name, Title: t.title, Description: t.about, Annotations: t.effect.annotations(t.title),
		InputSchema: mustSchema[In](true), OutputSchema: mustSchema[Out](false),
	}
	mcp.AddTool(m.s, spec, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		var none Out
		p, err := m.a.place()
		if err != nil {
			return nil, none, toolError(err)
		}
		text, out, err := do(ctx, p, in)
		if err != nil {
			return nil, none, toolError(err)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, out, nil
	})
}

// mustSchema describes a type that is known when the program is built.
func mustSchema[T any](strict bool) *jsonschema.Schema {
	s, err := service.Schema(reflect.TypeFor[T]())
	if err != nil {
		panic(err)
	}
	if strict {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	return s
}

// toolError is an error in the words of tools: what to do next with a command is
// of no use to who has none.
func toolError(err error) error {
	e := *fail.Of(err)
	e.Msg, _, _ = strings.Cut(e.Msg, "; see .snapshots/list or `amberfs list`")
	if strings.Contains(e.Hint, "amberfs ") || strings.Contains(e.Hint, "--") {
		e.Hint = ""
	}
	return &e
}

// ask asks for the operation that args belongs to.
func ask[R any](ctx context.Context, m *mcpServer, p locate.Place, args any) (R, error) {
	var out R
	err := m.a.ask(ctx, p, args, &out)
	return out, err
}

// maxPage bounds in bytes what a tool answers at once: a model can take only so
// much.
const maxPage = 40 << 10

// paging is what tools with long texts take.
type paging struct {
	StartIndex int `json:"start_index,omitempty" jsonschema:"where to go on in a long text, in bytes; see next_index of the answer"`
	MaxLength  int `json:"max_length,omitempty" jsonschema:"at most so many bytes at once, up to 40960"`
}

// page is a part of a text.
type page struct {
	Text        string `json:"text"`
	TotalLength int    `json:"total_length" jsonschema:"of the whole text, in bytes"`
	NextIndex   int    `json:"next_index,omitempty" jsonschema:"start_index of what follows"`
}

// of cuts a page out of a text, at ends of lines if there are any.
func (p paging) of(text string) (string, page, error) {
	if p.StartIndex < 0 || p.StartIndex > len(text) || p.MaxLength < 0 {
		return "", page{}, fmt.Errorf("start_index is %d and max_length %d, of a text of %d bytes", p.StartIndex, p.MaxLength, len(text))
	}
	limit := maxPage
	if p.MaxLength > 0 {
		limit = min(p.MaxLength, maxPage)
	}
	out := page{Text: text[p.StartIndex:], TotalLength: len(text)}
	if len(out.Text) > limit {
		out.Text = cut(out.Text, limit)
		out.NextIndex = p.StartIndex + len(out.Text)
	}
	shown := out.Text
	if out.NextIndex > 0 {
		shown += fmt.Sprintf("\n[%d of %d bytes; go on with start_index %d]", out.NextIndex, out.TotalLength, out.NextIndex)
	}
	return shown, out, nil
}

// cut is the beginning of a text, of at most limit bytes.
func cut(text string, limit int) string {
	if i := strings.LastIndexByte(text[:limit], '\n'); i >= 0 {
		return text[:i+1]
	}
	for limit > 1 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// inFormat is a text, or v as JSON.
func inFormat(format, text string, v any) (string, error) {
	switch format {
	case "", "text":
		return text, nil
	case "json":
		b, err := json.Marshal(v)
		return string(b), err
	}
	return "", fmt.Errorf("format is text or json, not %q", format)
}

// maxListed is how many paths an answer names.
const maxListed = 100

// shorten bounds a list; the count beside it tells how many there are.
func shorten[T any](list []T) []T { return list[:min(len(list), maxListed)] }
