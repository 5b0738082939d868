package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestMCPTools(t *testing.T) {
	ctx := context.Background()
	a := newApp(nil, &bytes.Buffer{}, &bytes.Buffer{})
	a.dir = t.TempDir()
	here, there := mcp.NewInMemoryTransports()
	server, err := newMCPServer(a).Connect(ctx, there, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(ctx, here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	list, err := client.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	readOnly := map[string]bool{}
	for _, tool := range list.Tools {
		readOnly[tool.Name] = tool.Annotations.ReadOnlyHint
	}
	if len(readOnly) != len(mcpTools(a)) || !readOnly["diff"] || readOnly["restore"] {
		t.Errorf("tools: %v", readOnly)
	}
	// Outside of a mount a call fails, with the sentence that a person gets.
	r, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "snapshot_list"})
	if err != nil {
		t.Fatal(err)
	}
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok || !r.IsError || !strings.Contains(text.Text, "not inside an amberfs mount") {
		t.Errorf("answer: %+v", r.Content[0])
	}
}
