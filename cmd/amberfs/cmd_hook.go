package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/hooks"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
)

const (
	maxHookInputBytes = 16 << 20
	// maxHookDelay is the longest time that a hook delays an agent.
	maxHookDelay = 1800 * time.Millisecond
	// maxTurnNames is the maximum number of names to try for the snapshot of a turn. A name cannot be used if another
	// agent has taken a snapshot with this name first.
	maxTurnNames = 8
)

func hookCommand(a *app) *cobra.Command {
	var install, uninstall bool
	cmd := &cobra.Command{
		Use:   "hook AGENT | hook --install|--uninstall AGENT",
		Short: "Take a snapshot before an agent's turn, and report what its calls change",
		Long: `Reads the JSON object that an agent (claude, cline, codex, copilot, cursor, gemini,
opencode or generic) sends to its hooks. Takes a snapshot turn-N, with the prompt as its
message and the agent's ids of session and message as labels. The agent's later changes
are by the actor AGENT/SESSION. The object's "cwd" selects the workspace.

After a call of a tool (the object has "tool_name"), it gives the agent what "amberfs
changed" prints, or nothing if nothing changed.

The exit status is always 0, within two seconds, so that a hook cannot stop the agent.
If it failed, the agent shows the reason once a session, and
$XDG_STATE_HOME/amberfs/hook.log (~/.local/state) has it.`,
		Example: `  amberfs hook --install claude
  amberfs hook claude < event.json
  amberfs undo --by claude/SESSION`,
		// Wrong arguments are no error, because agents would understand the exit status 2 as "block this prompt".
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, argv []string) error {
			agent := cmp.Or(strings.Join(argv, "-"), "generic")
			if install || uninstall {
				return changeHook(a, agent, uninstall)
			}

			runHook(cmd.Context(), a, agent)
			return nil
		},
	}

	cmd.Flags().BoolVar(&install, "install", false, "add the hook to the agent's settings in the current directory or -C DIR")
	cmd.Flags().BoolVar(&uninstall, "uninstall", false, "remove it from there")

	return cmd
}

// runHook handles the hook of an agent. It takes at most maxHookDelay.
func runHook(ctx context.Context, a *app, agent string) {
	ctx, stop := context.WithTimeout(ctx, maxHookDelay)
	defer stop()

	type result struct {
		in  hooks.Input
		err error
	}
	done := make(chan result, 1) // buffered: after the timeout, the result is not received, and the process ends without waiting for the goroutine
	go func() {
		var r result
		r.err = guard.Do(func() error { return handleHookInput(ctx, a, agent, &r.in) })
		done <- r
	}()

	r := result{err: errors.New("it took too long")}
	select {
	case r = <-done:
	case <-ctx.Done():
	}

	recordHookResult(a, agent, r.in, r.err)
}

// errAlreadyTaken means that the message has a snapshot already. This is no failure of the hook.
var errAlreadyTaken = errors.New("the snapshot was taken already")

// recordHookResult records whether a hook worked. A failure is also printed as a message that the agent shows to the
// user, because the agent does not show the hook's standard error.
func recordHookResult(a *app, agent string, in hooks.Input, err error) {
	f := hooks.UserFailures()
	if err == nil {
		f.RecordSuccess()
		return
	}

	text, _, _ := strings.Cut(err.Error(), "\n")
	a.note("hook: nothing was done: %s", text)

	if errors.Is(err, errAlreadyTaken) {
		f.RecordSuccess()
		return
	}

	warn, log := f.RecordFailure(agent, in.Session, cmp.Or(a.dir, in.Cwd), text, time.Now())
	if !warn {
		return
	}

	message := "amberfs took no snapshot before this turn: " + text
	if in.Tool != "" {
		message = "amberfs does not know what this call changed: " + text
	}
	if log != "" {
		message += "; see " + log
	}
	if w := hooks.WarningOutput(agent, message); w != nil {
		_ = a.printJSON(w) // endCommand reports a failed write
	}
}

// handleHookInput reads the input of a hook into in. It takes the snapshot of a turn or, after a call of a tool, reports
// what the call changed.
func handleHookInput(ctx context.Context, a *app, agent string, in *hooks.Input) error {
	var err error
	if *in, err = hooks.ReadInput(io.LimitReader(a.stdin, maxHookInputBytes)); err != nil {
		return err
	}
	if a.dir == "" {
		a.dir = in.Cwd
	}

	p, c, err := a.openClientHere(ctx)
	if errors.Is(err, locate.ErrNotMounted) {
		wd, _ := a.commandDir() // openClientHere has already called commandDir without an error
		return errs.Fail(errs.NotExist, "%s is not inside an amberfs mount; start the agent in a run: amberfs run --from . -- AGENT", quote(wd))
	}
	if err != nil {
		return err
	}
	defer c.Close()

	actor := service.Actor{Name: service.SessionActor(agent, in.Session), Up: generationsToAgent()}
	nameErr := c.Do(ctx, actor, client.Streams{}, nil)
	if in.Tool != "" {
		return errors.Join(reportCall(ctx, a, c, agent, actor.Name, in), nameErr)
	}

	isFirst := false
	for range maxTurnNames {
		if isFirst, err = takeTurn(ctx, c, in.Labels(agent), in.Message()); errs.ScriptKind(err) != errs.Exist {
			break
		}
	}

	if err == nil && isFirst {
		warnSecrets(a, agent, p)
	}

	return errors.Join(err, nameErr)
}

// reportCall prints what a call of a tool changed, in the form that the agent reads. lookLabel is the value of
// service.Changed.Look.
func reportCall(ctx context.Context, a *app, c *client.Client, agent, lookLabel string, in *hooks.Input) error {
	args := service.Changed{Look: lookLabel, Message: in.Message(), ForAgent: true}
	var done service.WhatChanged
	if err := c.Do(ctx, args, client.Streams{}, &done); err != nil {
		return err
	}

	text := service.OpOf(args).Text.Text(args, &done)
	if text == "" {
		return nil
	}

	switch out := hooks.ContextOutput(agent, in.Event, text).(type) {
	case string:
		a.printf("%s", out)
		return nil
	default:
		return a.printJSON(out)
	}
}

// takeTurn takes a snapshot with the next number of a turn, and reports whether it is the first turn. If the message
// has a snapshot already, takeTurn returns errAlreadyTaken.
//
// Another hook may handle the same message at the same time, and only one of the two may take a snapshot. Therefore
// takeTurn determines the number before it looks for a snapshot of the message. Either it finds the snapshot of the
// other hook, or both hooks have the same number, and one snapshot fails because the name exists.
func takeTurn(ctx context.Context, c *client.Client, labels map[string]string, message string) (isFirst bool, err error) {
	var newest, same service.Snapshots
	if err := c.Do(ctx, service.List{Limit: 1, Kind: info.KindTurn}, client.Streams{}, &newest); err != nil {
		return false, err
	}

	next := uint64(1)
	for _, i := range newest.Snapshots {
		next = service.TurnNumber(i) + 1
	}

	if labels["message"] != "" {
		sameMessage := map[string]string{"session": labels["session"], "message": labels["message"]}
		if err := c.Do(ctx, service.List{Limit: 1, Kind: info.KindTurn, Labels: sameMessage}, client.Streams{}, &same); err != nil {
			return false, err
		}
		if len(same.Snapshots) > 0 {
			return false, errAlreadyTaken
		}
	}

	labels[service.LookLabel] = service.SessionActor(labels["agent"], labels["session"])
	labels["turn"] = strconv.FormatUint(next, 10)
	err = c.Do(ctx, snapshot.CaptureOptions{Name: service.TurnName(next), Message: message, Labels: labels, Kind: info.KindTurn}, client.Streams{}, nil)

	return next == 1, err
}

// generationsToAgent returns the number of generations from this process up to the agent. The processes between them
// are shells that run the command of the hook.
func generationsToAgent() int {
	generations := 1
	for id := os.Getppid(); process.IsShellCommand(id); generations++ {
		st, err := process.StatOf(id)
		if err != nil || st.Parent <= 1 {
			break
		}
		id = st.Parent
	}

	return generations
}

// changeHook adds the hook to an agent's settings, or removes it. It first prints the change.
func changeHook(a *app, agent string, remove bool) error {
	wd, err := a.commandDir()
	if err != nil {
		return err
	}

	s, err := hooks.PlanEdit(wd, agent, remove)
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
