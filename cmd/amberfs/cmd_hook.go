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
hooks. Takes a snapshot turn-N, with the prompt as its message, if anything changed
since the newest one. The agent's later changes are by the actor AGENT/SESSION. The
object's "cwd" selects the workspace.

The exit status is always 0, within two seconds, so that a hook cannot stop the agent.
If it failed, the agent shows the reason once a session, and
$XDG_STATE_HOME/amberfs/hook.log (~/.local/state) has it.

Codex runs a hook after you trusted the folder and reviewed the hook with /hooks.`,
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
			type result struct {
				in  hookInput
				err error
			}
			done := make(chan result, 1) // nothing waits for what hangs: the process ends
			go func() {
				var r result
				r.err = guard.Do(func() error { return a.turn(ctx, agent, &r.in) })
				done <- r
			}()
			r := result{err: errors.New("it took too long")}
			select {
			case r = <-done:
			case <-ctx.Done():
			}
			a.hookEnded(agent, r.in, r.err)
			return nil
		},
	}
	cmd.Flags().BoolVar(&install, "install", false, "add the hook to the agent's settings in the current directory or -C DIR")
	cmd.Flags().BoolVar(&uninstall, "uninstall", false, "remove it from there")
	return cmd
}

// hookInput is what agents send to hooks.
type hookInput struct {
	Prompt, Cwd string
	Session     string `json:"session_id"`
	Turn        string `json:"turn_id"`
}

// errNothingChanged is not a failure: the newest snapshot has the state before the turn.
var errNothingChanged = errors.New("nothing changed")

// hookEnded has the user hear of a hook that failed: standard error is seen by nobody.
func (a *app) hookEnded(agent string, in hookInput, err error) {
	f := hooks.StateFailures()
	if err == nil {
		f.Worked()
		return
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	a.note("hook: nothing was done: %s", text)
	if errors.Is(err, errNothingChanged) {
		f.Worked()
		return
	}
	warn, log := f.Failed(agent, in.Session, cmp.Or(a.dir, in.Cwd), text, time.Now())
	if !warn || !hooks.Known(agent) {
		return
	}
	message := "amberfs took no snapshot before this turn: " + text
	if log != "" {
		message += "; see " + log
	}
	_ = a.printJSON(map[string]string{"systemMessage": message}) // an error of the output is found at the end
}

func (a *app) turn(ctx context.Context, agent string, in *hookInput) error {
	if err := json.NewDecoder(io.LimitReader(a.stdin, maxHookInput)).Decode(in); err != nil {
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
			err = fmt.Errorf("%w since snapshot %s", errNothingChanged, made.Name)
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
	if err := s.Write(); err != nil || remove || agent != "codex" {
		return err
	}
	a.note("codex runs it after you have trusted this folder and reviewed the hook: /hooks in Codex")
	return nil
}
