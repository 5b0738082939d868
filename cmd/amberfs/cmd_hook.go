package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/hooks"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
)

const (
	maxHookInput = 16 << 20
	// hookTime is how long a hook may hold an agent up.
	hookTime = 1800 * time.Millisecond
	// hookNames is how many names of a turn are tried: another agent may take one first.
	hookNames = 8
)

func hookCommand(a *app) *cobra.Command {
	var install, uninstall bool
	cmd := &cobra.Command{
		Use:   "hook AGENT | hook --install|--uninstall AGENT",
		Short: "Take a snapshot before an agent's turn",
		Long: `Reads the JSON object that an agent (claude, codex, gemini or generic) sends to its
hooks. Takes a snapshot of kind turn, turn-N, if anything changed since the newest one,
with the prompt as its message. What the agent changes from then on is by the actor
AGENT/SESSION. The object's "cwd" selects the workspace.

The exit status is always 0, within two seconds, so that a hook cannot stop the agent.
If it did nothing, it prints why on standard error.`,
		Example: `  amberfs hook --install claude
  amberfs hook claude < event.json
  amberfs undo --by claude/SESSION`,
		// Agents take exit status 2, usage, for "block this prompt".
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, argv []string) error {
			agent := cmp.Or(strings.Join(argv, "-"), "generic")
			if install || uninstall {
				return a.installHook(agent, uninstall)
			}
			ctx, stop := context.WithTimeout(cmd.Context(), hookTime)
			defer stop()
			done := make(chan error, 1) // nothing waits for what hangs: the process ends
			go func() {
				done <- guard.Do(func() error { return a.turn(ctx, agent) })
			}()
			var err error
			select {
			case err = <-done:
			case <-ctx.Done():
				err = errors.New("it took too long")
			}
			if err != nil {
				text, _, _ := strings.Cut(err.Error(), "\n")
				a.note("hook: nothing was done: %s", text)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&install, "install", false, "add the hook to the agent's settings in the current directory or -C DIR, and print them")
	cmd.Flags().BoolVar(&uninstall, "uninstall", false, "remove it from there")
	return cmd
}

func (a *app) turn(ctx context.Context, agent string) error {
	var in struct {
		Prompt, Cwd string
		Session     string `json:"session_id"`
		Turn        string `json:"turn_id"`
	}
	if err := json.NewDecoder(io.LimitReader(a.stdin, maxHookInput)).Decode(&in); err != nil {
		return fmt.Errorf("standard input is not what agents send to hooks: %w", err)
	}
	if a.dir == "" {
		a.dir = in.Cwd
	}
	_, c, err := a.openHere(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	who := service.Actor{Name: hooks.Actor(agent, in.Session), Up: agentAbove()}
	named := c.Do(ctx, who, client.Exchange{}, nil)
	labels := map[string]string{"agent": agent}
	if in.Session != "" {
		labels["session"] = in.Session
	}
	message := []rune(strings.Join(strings.Fields(in.Prompt), " "))
	req := service.Snapshot{Message: string(message[:min(len(message), 200)]), Labels: labels, Kind: snapshot.KindTurn, IfChanged: true}
	var newest service.Snapshots
	if err := c.Do(ctx, service.List{Limit: 1}, client.Exchange{}, &newest); err != nil {
		return err
	}
	next := uint64(1)
	for _, i := range newest.Snapshots {
		next = i.Seq + 1
	}
	for n := range uint64(hookNames) {
		req.Name = fmt.Sprintf("turn-%d", next+n)
		if labels["turn"] = in.Turn; in.Turn == "" {
			labels["turn"] = fmt.Sprint(next + n)
		}
		var made snapshot.Info
		err = c.Do(ctx, req, client.Exchange{}, &made)
		if err == nil && made.Name != req.Name {
			err = fmt.Errorf("nothing changed since snapshot %s", made.Name)
		}
		if fail.KindOf(err) != fail.Exists {
			break
		}
	}
	return errors.Join(err, named)
}

// agentAbove returns how many generations above this process the agent is: between them
// are shells that run the hook's command.
func agentAbove() int {
	up := 1
	for id := os.Getppid(); process.RunsCommand(id); up++ {
		st, err := process.StatOf(id)
		if err != nil || st.Parent <= 1 {
			break
		}
		id = st.Parent
	}
	return up
}

// installHook changes an agent's settings, and prints what changes first.
func (a *app) installHook(agent string, remove bool) error {
	wd, err := a.cwd()
	if err != nil {
		return err
	}
	s, err := hooks.Plan(wd, agent, remove)
	if err != nil {
		return err
	}
	if !s.Changed {
		a.printf("%s: no changes\n", s.File)
		return nil
	}
	a.printf("%s:\n%s", s.File, s.Diff())
	return s.Write()
}
