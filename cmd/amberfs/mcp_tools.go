package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/snapshot"
)

// maxToolText bounds in bytes what a tool answers: a diff can be longer than
// whoever asked can read.
const maxToolText = 256 << 10

// mcpTool is one tool, ready to be added to a server.
type mcpTool struct{ add func(*mcp.Server) }

// How a tool changes the workspace, as clients show it before they call one.
const (
	reads    = iota // nothing
	adds            // only new things
	replaces        // what is there; undo takes it back
	destroys
)

// tool makes one out of a function that asks the daemon.
func tool[In any](a *app, name, about string, effect int, do func(context.Context, locate.Place, In) (any, error)) mcpTool {
	destructive := effect == destroys || effect == replaces
	t := &mcp.Tool{
		Name: name, Description: about,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: effect == reads, DestructiveHint: &destructive},
	}
	return mcpTool{func(s *mcp.Server) {
		mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			p, err := a.place()
			if err != nil {
				return nil, nil, err
			}
			out, err := do(ctx, p, in)
			if err != nil {
				return nil, nil, err
			}
			text, ok := out.(string)
			if !ok {
				b, err := json.Marshal(out)
				if err != nil {
					return nil, nil, err
				}
				text = string(b)
			}
			if len(text) > maxToolText {
				text = fmt.Sprintf("%s\n… cut off after %d of %d bytes; ask for less", text[:maxToolText], maxToolText, len(text))
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
	}}
}

// askFor is a.ask with a result of a known type.
func askFor[Out any](ctx context.Context, a *app, p locate.Place, op string, args any) (any, error) {
	var out Out
	err := a.ask(ctx, p, request{op: op, args: args}, &out)
	return out, err
}

// The arguments of the tools.
type (
	noArgs   struct{}
	nameArgs struct {
		Name string `json:"name" jsonschema:"a snapshot's name, cp-NUMBER, latest, undo or origin"`
	}
	createArgs struct {
		Name    string `json:"name" jsonschema:"what to call the snapshot: letters, digits, _ . and -"`
		Message string `json:"message,omitempty" jsonschema:"what this state is"`
	}
	restoreArgs struct {
		Name   string   `json:"name" jsonschema:"the snapshot to go back to"`
		Paths  []string `json:"paths,omitempty" jsonschema:"only these files or directories; everything if empty"`
		DryRun bool     `json:"dry_run,omitempty" jsonschema:"only say what would change"`
	}
	diffArgs struct {
		A          string   `json:"a" jsonschema:"the snapshot to compare from"`
		B          string   `json:"b,omitempty" jsonschema:"the snapshot to compare with; the present state if empty"`
		Paths      []string `json:"paths,omitempty" jsonschema:"only these files or directories"`
		NameStatus bool     `json:"name_status,omitempty" jsonschema:"a letter and a path a file instead of a patch"`
	}
	pathArgs struct {
		Path string `json:"path" jsonschema:"a file or directory"`
	}
	revertArgs struct {
		Path string `json:"path" jsonschema:"the file or directory to bring back"`
		Name string `json:"name,omitempty" jsonschema:"the snapshot to take it from; the newest that differs if empty"`
	}
	forkArgs struct {
		Name     string `json:"name" jsonschema:"what to call the fork"`
		Snapshot string `json:"snapshot,omitempty" jsonschema:"the snapshot to start from; the present state if empty"`
	}
	promoteArgs struct {
		Fork   string `json:"fork" jsonschema:"the fork whose changes to merge"`
		Ours   bool   `json:"ours,omitempty" jsonschema:"where both sides changed a path, keep the workspace's"`
		Theirs bool   `json:"theirs,omitempty" jsonschema:"where both sides changed a path, take the fork's"`
	}
)

// mcpTools are all tools.
func mcpTools(a *app) []mcpTool {
	return []mcpTool{
		tool(a, "snapshot_create", "Capture the workspace as it is now. Costs nothing, whatever its size.", adds,
			func(ctx context.Context, p locate.Place, in createArgs) (any, error) {
				return askFor[snapshot.Info](ctx, a, p, "snapshot", api.Snapshot{Name: in.Name, Message: in.Message})
			}),
		tool(a, "snapshot_list", "List the snapshots, newest first.", reads,
			func(ctx context.Context, p locate.Place, _ noArgs) (any, error) {
				return askFor[api.List](ctx, a, p, "list", nil)
			}),
		tool(a, "snapshot_show", "Show everything about one snapshot.", reads,
			func(ctx context.Context, p locate.Place, in nameArgs) (any, error) {
				return askFor[snapshot.Info](ctx, a, p, "show", api.Name{Name: in.Name})
			}),
		tool(a, "snapshot_delete", "Delete a snapshot.", destroys,
			func(ctx context.Context, p locate.Place, in nameArgs) (any, error) {
				return askFor[api.Names](ctx, a, p, "remove", api.Names{Names: []string{in.Name}})
			}),
		tool(a, "restore", "Make the workspace, or some paths of it, equal to a snapshot. The state before is captured first.", replaces,
			func(ctx context.Context, p locate.Place, in restoreArgs) (any, error) {
				paths, err := relPaths(p, in.Paths)
				if err != nil {
					return nil, err
				}
				return askFor[api.Restored](ctx, a, p, "restore", api.Restore{Name: in.Name, Paths: snapshot.BytePaths(paths), DryRun: in.DryRun})
			}),
		tool(a, "undo", "Take the last restore, revert or promotion back.", replaces,
			func(ctx context.Context, p locate.Place, _ noArgs) (any, error) {
				return askFor[api.Restored](ctx, a, p, "restore", api.Restore{Name: "undo"})
			}),
		tool(a, "revert", "Bring one file or directory back; it is deleted if it did not exist then.", replaces,
			func(ctx context.Context, p locate.Place, in revertArgs) (any, error) {
				rel, err := relPath(p, in.Path)
				if err != nil {
					return nil, err
				}
				return askFor[api.Restored](ctx, a, p, "revert", api.Revert{Path: snapshot.BytePath(rel), Name: in.Name})
			}),
		tool(a, "diff", "Show what changed from one snapshot to another, or to now, as git would.", reads, a.mcpDiff),
		tool(a, "history", "List the snapshots in which a path was created, modified or deleted.", reads,
			func(ctx context.Context, p locate.Place, in pathArgs) (any, error) {
				rel, err := relPath(p, in.Path)
				if err != nil {
					return nil, err
				}
				return askFor[api.History](ctx, a, p, "history", api.PathHistory{Path: snapshot.BytePath(rel)})
			}),
		tool(a, "fork_create", "Make an isolated writable copy of a snapshot or of the present state. Costs nothing; the answer has its path.", adds,
			func(ctx context.Context, p locate.Place, in forkArgs) (any, error) {
				return askFor[api.Forked](ctx, a, p, "fork", api.Fork{Name: in.Name, Snapshot: in.Snapshot})
			}),
		tool(a, "fork_list", "List the forks.", reads,
			func(ctx context.Context, p locate.Place, _ noArgs) (any, error) {
				return askFor[api.Forks](ctx, a, p, "forks", nil)
			}),
		tool(a, "fork_promote", "Merge what a fork changed into the workspace. Refused, with the list, if both changed a path.", replaces,
			func(ctx context.Context, p locate.Place, in promoteArgs) (any, error) {
				var out api.Promoted
				err := a.ask(ctx, p, request{op: "promote", args: api.Promote{Fork: in.Fork, Ours: in.Ours, Theirs: in.Theirs}}, &out)
				if err != nil && len(out.Conflicts) > 0 {
					return nil, fmt.Errorf("%w: %q", err, out.Conflicts)
				}
				return out, err
			}),
		tool(a, "status", "Show how the workspace and its store are.", reads,
			func(ctx context.Context, p locate.Place, _ noArgs) (any, error) {
				return askFor[api.Status](ctx, a, p, "status", nil)
			}),
	}
}

// mcpDiff answers with the diff itself.
func (a *app) mcpDiff(ctx context.Context, p locate.Place, in diffArgs) (any, error) {
	paths, err := relPaths(p, in.Paths)
	if err != nil {
		return nil, err
	}
	format := "patch"
	if in.NameStatus {
		format = "name-status"
	}
	var out bytes.Buffer
	err = a.ask(ctx, p, request{op: "diff", args: api.Diff{A: in.A, B: in.B, Paths: snapshot.BytePaths(paths), Format: format}, output: &out}, nil)
	if err != nil {
		return nil, err
	}
	if out.Len() == 0 {
		return "no differences", nil
	}
	return out.String(), nil
}
