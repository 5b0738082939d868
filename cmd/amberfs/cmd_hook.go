package main

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// maxHookInput bounds what an agent sends to a hook, in bytes.
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
