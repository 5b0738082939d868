package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
)

func mcpCommand(a *app) *cobra.Command {
	var set string
	cmd := &cobra.Command{
		Use:   "mcp [--tools all|workspace:NAME|snapshots]",
		Short: "Serve a workspace to a program that speaks MCP",
		Long: `Serves a workspace as tools over the Model Context Protocol, on standard input and
output. The workspace can be mounted later.

--tools chooses the names of the tools:

  all             snapshot_create, fork_create, ...
  snapshots       snapshots_create, snapshots_list, ...
  workspace:NAME  workspace__NAME__snapshot, __restore, __branch; restore and branch
                  create a new workspace and leave this one as it is`,
		Example: `  claude mcp add snapshots -- amberfs mcp -C ~/work`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := newMCPServer(a, set)
			if err != nil {
				return err
			}
			err = server.Run(cmd.Context(), &mcp.StdioTransport{})
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				return nil // the client has ended
			}
			return err
		},
	}
	cmd.Flags().StringVar(&set, "tools", "all", "which `SET` of tool names to offer")
	return cmd
}

func newMCPServer(a *app, set string) (*mcp.Server, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "amberfs", Title: "amberfs snapshots", Version: versionText()}, &mcp.ServerOptions{
		Instructions: "Every state of this workspace can be captured at no cost and brought back exactly. " +
			"Make a snapshot before anything risky; every restore captures the present state first, so it can be undone. " +
			"Paths are relative to the directory that the server was started for.",
	})
	m := &mcpServer{a: a, s: s}
	workspace, isWorkspace := strings.CutPrefix(set, "workspace:")
	chosen := map[string]int{"all": setAll, "snapshots": setSnapshots}
	in, known := chosen[set]
	if isWorkspace = isWorkspace && workspace != ""; isWorkspace {
		in = setWorkspace
	} else if !known {
		return nil, fail.New(fail.Usage, "no such set of tools: %q", set).WithHint("--tools takes all, workspace:NAME or snapshots")
	}
	for i := range tools {
		switch t := &tools[i]; {
		case t.names[in] == "":
		case isWorkspace:
			m.offerRef(workspace, t)
		default:
			m.offer(in, t)
		}
	}
	m.prompts()
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "snapshot-file", Title: "A file in a snapshot", Description: "The contents of a file as a snapshot has it.",
		URITemplate: "amberfs://snapshot/{name}/{+path}",
	}, m.readResource)
	return s, nil
}
