package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// prompts are commands that a person can give to an agent.
func (m *mcpServer) prompts() {
	for _, p := range []struct{ name, title, about, arg, text string }{
		{"snapshot", "Snapshot", "Capture the workspace as it is now.", "name",
			"Capture the workspace now, as a snapshot named %q (any free name that says what this state is, if that is empty), and tell me its name."},
		{"rewind", "Rewind", "Go back to a snapshot.", "name",
			"List the snapshots. Go back to the snapshot %q (the newest before your last changes, if that is empty): first say what would change, by a dry run, then restore it and sum up what changed."},
		{"review", "Review changes", "Look at what changed since a snapshot.", "name",
			"Look at what changed since the snapshot %q (the latest, if that is empty): list the files, read the differences, and tell me what they do and what looks wrong."},
	} {
		spec := &mcp.Prompt{Name: p.name, Title: p.title, Description: p.about,
			Arguments: []*mcp.PromptArgument{{Name: p.arg, Description: "a snapshot"}}}
		m.s.AddPrompt(spec, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			text := fmt.Sprintf(p.text, r.Params.Arguments[p.arg])
			return &mcp.GetPromptResult{Description: p.about, Messages: []*mcp.PromptMessage{
				{Role: "user", Content: &mcp.TextContent{Text: text}},
			}}, nil
		})
	}
}

// maxResource bounds a file that is given as a resource, in bytes.
const maxResource = 1 << 20

// resources are the files of snapshots.
func (m *mcpServer) resources() {
	m.s.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "snapshot-file", Title: "A file in a snapshot", Description: "The contents of a file as a snapshot has it.",
		URITemplate: "amberfs://snapshot/{name}/{+path}",
	}, m.readResource)
}

func (m *mcpServer) readResource(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri, err := url.Parse(r.Params.URI)
	if err != nil {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	name, path, _ := strings.Cut(strings.TrimPrefix(uri.Path, "/"), "/")
	p, err := m.a.place()
	if err != nil {
		return nil, toolError(err)
	}
	var out bytes.Buffer
	req := service.File{Path: naming.BytePath(path), Snapshot: name, Limit: maxResource + 1}
	if err := m.a.exchange(ctx, p, req, client.Exchange{Out: &out}, nil); err != nil {
		return nil, toolError(err)
	}
	data := out.Bytes()
	if len(data) > maxResource {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxResource)
	}
	c := &mcp.ResourceContents{URI: r.Params.URI, MIMEType: http.DetectContentType(data)}
	if strings.HasPrefix(c.MIMEType, "text/") {
		c.Text = string(data)
	} else {
		c.Blob = data
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
}
