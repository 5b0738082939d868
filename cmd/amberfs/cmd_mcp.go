package main

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

func mcpCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve the workspace's snapshots to a program that speaks MCP",
		Long: `A Model Context Protocol server on the standard input and output, for agents: it
offers snapshots, restores, diffs, history and forks of the workspace that it is
started in, or that of -C DIR, as tools.`,
		Example: `  claude mcp add snapshots -- amberfs mcp -C ~/work`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := a.place(); err != nil {
				return err // at once, not at the first call
			}
			err := newMCPServer(a).Run(cmd.Context(), &mcp.StdioTransport{})
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				return nil // whoever started it has had enough
			}
			return err
		},
	}
}

// newMCPServer makes the server with all its tools.
func newMCPServer(a *app) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "amberfs", Title: "amberfs snapshots", Version: versionText()}, &mcp.ServerOptions{
		Instructions: "Every state of this workspace can be captured at no cost and brought back exactly. " +
			"Make a snapshot before anything risky; every restore captures the present state first, so it can be undone. " +
			"Paths are relative to the directory that the server was started for.",
	})
	for _, t := range mcpTools(a) {
		t.add(s)
	}
	return s
}
