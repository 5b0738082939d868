package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
)

func mcpCommand(a *app) *cobra.Command {
	var toolSet string
	cmd := &cobra.Command{
		Use:   "mcp [--tools standard|all|workspace:NAME|snapshots]",
		Short: "Serve a workspace to a program that speaks MCP",
		Long: `Serves a workspace over the Model Context Protocol, on standard input and output. The
workspace can be mounted later.

--tools chooses the tools:

  standard        snapshot_create, fork_create, ...
  all             these, and snapshot_bisect and workspace_explore, which run programs
                  that the caller chooses, with all your rights
  snapshots       snapshots_create, snapshots_list, ...
  workspace:NAME  workspace__NAME__snapshot, __restore, __branch; restore and branch
                  create a new workspace and leave this one as it is`,
		Example: `  claude mcp add snapshots -- amberfs mcp -C ~/work`,
		Args:    argumentCountCheck(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return serveMCP(cmd.Context(), a, toolSet) },
	}

	cmd.Flags().StringVar(&toolSet, "tools", "standard", "which `SET` of tool names to offer")
	return cmd
}

// serveMCP serves a set of tools until the client ends.
func serveMCP(ctx context.Context, a *app, toolSet string) error {
	if _, err := a.location(); errors.Is(err, locate.ErrOverlaid) {
		return err
	}

	server, err := newMCPServer(a, toolSet)
	if err != nil {
		return err
	}

	err = server.Run(ctx, stdioTransport(a.stdin, a.out.Writer))
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil // the client has ended
	}

	return err
}

func newMCPServer(a *app, toolSet string) (*mcp.Server, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "amberfs", Title: "amberfs snapshots", Version: versionText()}, &mcp.ServerOptions{
		Instructions: "Every state of this workspace can be captured at no cost and brought back exactly. " +
			"Make a snapshot before anything risky; every restore captures the present state first, so it can be undone. " +
			"Paths are relative to the directory that the server was started for.",
	})

	m := &mcpServer{a: a, server: s}
	workspace, isWorkspace := strings.CutPrefix(toolSet, "workspace:")
	setIndexes := map[string]int{"standard": service.ToolsAll, "all": service.ToolsAll, "snapshots": service.ToolsSnapshots}
	setIndex, known := setIndexes[toolSet]
	if isWorkspace = isWorkspace && workspace != ""; isWorkspace {
		setIndex = service.ToolsWorkspace
	} else if !known {
		return nil, errs.Fail(errs.Invalid, "no such set of tools: %q", toolSet).WithHint("--tools takes standard, all, workspace:NAME or snapshots")
	}

	for _, t := range tools() {
		switch {
		case t.Names[setIndex] == "" || (t.OnlyInAll || t.effect == service.Executes) && toolSet != "all":
		case isWorkspace:
			m.addRefTool(workspace, t)
		default:
			m.addOperationTool(setIndex, t)
		}
	}

	m.addPrompts()
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "snapshot-file", Title: "A file in a snapshot", Description: "The contents of a file as a snapshot has it.",
		URITemplate: "amberfs://snapshot/{name}/{+path}",
	}, m.readResource)

	return s, nil
}

func (m *mcpServer) addPrompts() {
	for _, p := range []struct{ name, title, about, text string }{
		{"snapshot", "Snapshot", "Capture the workspace as it is now.",
			"Capture the workspace now, as a snapshot named %q (any free name that says what this state is, if that is empty), and tell me its name."},
		{"rewind", "Rewind", "Go back to a snapshot.",
			"List the snapshots. Go back to the snapshot %q (the newest before your last changes, if that is empty): first say what would change, by a dry run, then restore it and sum up what changed."},
		{"review", "Review changes", "Look at what changed since a snapshot.",
			"Look at what changed since the snapshot %q (the latest, if that is empty): list the files, read the differences, and tell me what they do and what looks wrong."},
	} {
		spec := &mcp.Prompt{Name: p.name, Title: p.title, Description: p.about,
			Arguments: []*mcp.PromptArgument{{Name: "name", Description: "a snapshot"}}}
		m.server.AddPrompt(spec, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			text := fmt.Sprintf(p.text, r.Params.Arguments["name"])
			return &mcp.GetPromptResult{Description: p.about, Messages: []*mcp.PromptMessage{
				{Role: "user", Content: &mcp.TextContent{Text: text}},
			}}, nil
		})
	}
}

const maxResourceBytes = 1 << 20

func (m *mcpServer) readResource(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri, err := url.Parse(r.Params.URI)
	if err != nil {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}

	name, path, _ := strings.Cut(strings.TrimPrefix(uri.Path, "/"), "/")
	p, err := m.a.location()
	if err != nil {
		return nil, toolError(err)
	}

	var out bytes.Buffer
	req := service.File{Path: naming.BytePath(path), Snapshot: name, Limit: maxResourceBytes + 1}
	if err := m.a.callWithStreams(ctx, p, req, client.Streams{Out: &out}, nil); err != nil {
		return nil, toolError(err)
	}

	data := out.Bytes()
	if len(data) > maxResourceBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxResourceBytes)
	}

	c := &mcp.ResourceContents{URI: r.Params.URI, MIMEType: http.DetectContentType(data)}
	if strings.HasPrefix(c.MIMEType, "text/") {
		c.Text = string(data)
	} else {
		c.Blob = data
	}

	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
}

// maxPageBytes is the maximum size in bytes of an answer of a tool.
const maxPageBytes = 40 << 10

type pageRange struct {
	StartIndex int `json:"start_index,omitempty" jsonschema:"next_index of the answer before"`
	MaxLength  int `json:"max_length,omitempty" jsonschema:"in bytes, up to 40960"`
}

type page struct {
	Text        string `json:"text"`
	TotalLength int    `json:"total_length" jsonschema:"of the whole text, in bytes"`
	NextIndex   int    `json:"next_index,omitempty" jsonschema:"start_index of what follows"`
}

// cutPage returns the part p of a text twice: as text for a model, with a line about the next page, and as a page.
// The part ends after a whole line, if it has one.
func (p pageRange) cutPage(text string) (string, page, error) {
	if p.StartIndex < 0 || p.StartIndex > len(text) || p.MaxLength < 0 {
		return "", page{}, fmt.Errorf("start_index is %d and max_length %d, of a text of %d bytes", p.StartIndex, p.MaxLength, len(text))
	}
	limit := maxPageBytes
	if p.MaxLength > 0 {
		limit = min(p.MaxLength, maxPageBytes)
	}

	out := page{Text: text[p.StartIndex:], TotalLength: len(text)}
	if len(out.Text) > limit {
		out.Text = cutAtLine(out.Text, limit)
		out.NextIndex = p.StartIndex + len(out.Text)
	}

	shown := out.Text
	if out.NextIndex > 0 {
		shown += fmt.Sprintf("\n[%d of %d bytes; continue with start_index %d]", out.NextIndex, out.TotalLength, out.NextIndex)
	}

	return shown, out, nil
}

func cutAtLine(text string, limit int) string {
	if i := strings.LastIndexByte(text[:limit], '\n'); i >= 0 {
		return text[:i+1]
	}
	for limit > 1 && !utf8.RuneStart(text[limit]) {
		limit--
	}

	return text[:limit]
}
