package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

func mcpCommand(a *app) *cobra.Command {
	var set string
	cmd := &cobra.Command{
		Use:   "mcp [--tools all|workspace:NAME|snapshots]",
		Short: "Serve a workspace to a program that speaks MCP",
		Long: `Serves snapshots, restores, diffs, history and forks of a workspace as tools over the
Model Context Protocol, on standard input and output. The workspace is that of the
current directory or of -C DIR. It can be mounted later.

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
			out := &lockedWriter{w: os.Stdout}
			err = server.Run(cmd.Context(), &mcp.IOTransport{Reader: wellFormed(os.Stdin, out), Writer: out})
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
	m.resources()
	return s, nil
}

const maxHookInput = 16 << 20

func hookCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "hook AGENT",
		Short: "Take a snapshot before an agent's turn",
		Long: `Reads the JSON object that an agent sends to its hooks, and takes a snapshot of kind
turn if anything changed since the newest one. The prompt becomes its message. The
object's "cwd" selects the workspace.

The exit status is always 0, so that a hook cannot stop the agent.`,
		Example: `  amberfs hook claude-code    # as a UserPromptSubmit hook in .claude/settings.json`,
		// Agents take exit status 2, usage, for "block this prompt".
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, argv []string) error {
			var in struct {
				Prompt, Cwd string
				Session     string `json:"session_id"`
			}
			if err := json.NewDecoder(io.LimitReader(a.stdin, maxHookInput)).Decode(&in); err != nil {
				return nil
			}
			if a.dir == "" {
				a.dir = in.Cwd
			}
			labels := map[string]string{"agent": strings.Join(argv, " ")}
			if in.Session != "" {
				labels["session"] = in.Session
			}
			message := []rune(strings.Join(strings.Fields(in.Prompt), " "))
			req := service.Snapshot{Message: string(message[:min(len(message), 200)]), Labels: labels,
				Kind: snapshot.KindTurn, IfChanged: true}
			_ = a.askHere(cmd.Context(), req, nil)
			return nil
		},
	}
}
