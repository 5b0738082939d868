package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
)

func listCommand(a *app) *cobra.Command {
	var req service.List
	var long, all, turns bool
	cmd := &cobra.Command{
		Use:     "list [FLAG]...",
		Aliases: []string{"ls"},
		Short:   "List snapshots, newest first",
		Long: `Lists the snapshots of the workspace, newest first: name, the first 12 digits of the
id ("-" until it is stored), time and message, separated by tabs.

--turns lists turns: number, time, AGENT/SESSION, the agent's id of the message, prompt.`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if req.Since, err = sinceText(req.Since); err != nil {
				return err
			}
			if cmd.Flags().Changed("limit") && req.Limit < 1 {
				return errs.Fail(errs.Invalid, "-n must be at least 1, not %d", req.Limit)
			}

			if turns {
				if req.Kind != "" && req.Kind != info.KindTurn || long {
					return errs.Fail(errs.Invalid, "--turns cannot be used with --kind or --long")
				}
				req.Kind = info.KindTurn
			}

			if !all && req.Kind == "" {
				req.Without = info.KindPreRestore + "," + info.KindCall
			}

			var l service.Snapshots
			if err := a.askHere(cmd.Context(), req, &l); err != nil {
				return err
			}

			return a.print(l.Snapshots, func() {
				a.usePager()

				switch {
				case turns:
					a.printRows(turnRows(l.Snapshots))
				case long:
					a.printRows(l.LongRows())
				default:
					a.printResult(service.OpOf(req).Text, req, &l)
				}
			})
		},
	}

	f := cmd.Flags()
	f.IntVarP(&req.Limit, "limit", "n", 0, "only the newest `N`")
	f.BoolVar(&all, "all", false, "also snapshots that restores took first (kind pre-restore), and those after calls of tools (call)")
	f.StringVar(&req.Since, "since", "", "only since this `TIME`: 2h, 7d, or a date (2026-01-31)")
	f.StringVar(&req.Kind, "kind", "", "only this `KIND`: manual, turn, call, actor, auto, pre-restore, fork, import, pull")
	cmd.Flags().StringVar(&req.By, "by", "", "only with changes of `ACTOR`")
	labelFlag(cmd, &req.Labels, "only with the label `KEY=VALUE`; repeatable")
	f.BoolVar(&turns, "turns", false, "agents' turns")
	f.BoolVar(&long, "long", false, "also show kind and pin, counts of changes (+/~/-) and labels")

	return cmd
}

// sinceText makes a time of what the user wrote, in the user's time zone.
func sinceText(text string) (string, error) {
	t, err := service.ParseSince(text)
	if err != nil || t.IsZero() {
		return "", err
	}
	return t.Format(time.RFC3339Nano), nil
}

// printRows prints rows in columns on a terminal, else with tabs between them.
func (a *app) printRows(rows [][]string) {
	if isTerminal(a.stdout) || a.closePager != nil {
		printTable(a.stdout, rows)
		return
	}
	a.printf("%s", service.JoinRows(rows, "\t"))
}

// printTable prints rows in columns as wide as they need to be.
func printTable(w io.Writer, rows [][]string) {
	fmt.Fprint(w, service.Columns(rows))
}

func logCommand(a *app) *cobra.Command {
	var req service.Log
	cmd := &cobra.Command{
		Use:   "log [FLAG]... [PATH]",
		Short: "Show events",
		Long: `Shows the events of the workspace, oldest first: time, action, path, and the command
and process that caused it. With PATH, only events at or below it.`,
		Example: `  amberfs log -n 20
  amberfs log --since 2h --action deleted src/`,
		Args: args(0, 1, "at most one PATH"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("lines") && req.Limit < 1 {
				return errs.Fail(errs.Invalid, "-n must be at least 1, not %d", req.Limit)
			}
			if req.Since, err = sinceText(req.Since); err != nil {
				return err
			}

			if len(argv) == 1 {
				if req.Path, err = relPath(p, argv[0]); err != nil {
					return err
				}
			}

			if !req.Follow {
				a.usePager()
			}

			if req.Follow && req.Limit > 0 {
				past := req
				past.Follow, req.Limit = false, 0
				if err := a.exchange(cmd.Context(), p, past, client.Exchange{Item: func(line json.RawMessage) error {
					var e events.Event
					err := json.Unmarshal(line, &e)
					req.After = e.Seq
					return errors.Join(err, a.printEvent(line))
				}}, nil); err != nil {
					return err
				}
			}

			err = a.exchange(cmd.Context(), p, req, client.Exchange{Item: a.printEvent}, nil)
			if req.Follow && cmd.Context().Err() != nil {
				return nil
			}

			return err
		},
	}

	f := cmd.Flags()
	f.BoolVarP(&req.Follow, "follow", "f", false, "continue as events happen")
	f.IntVarP(&req.Limit, "lines", "n", 0, "only the last `N`")
	f.StringVar(&req.Since, "since", "", "only since this `TIME`: 2h, 7d, or a date")
	f.StringVar(&req.Action, "action", "", "only this `ACTION`: created, modified, deleted, renamed, restored, captured, ...")
	cmd.Flags().StringVar(&req.By, "by", "", "only events of `ACTOR`")
	f.StringVar(&req.Command, "command", "", "only commands that begin with `COMMAND`")

	return cmd
}

func (a *app) printEvent(line json.RawMessage) error {
	if a.json {
		_, err := fmt.Fprintf(a.stdout, "%s\n", gitquote.JSON(line))
		return err
	}

	var e events.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}

	_, err := fmt.Fprintln(a.stdout, service.EventText(e, a.actionColor))
	return err
}

// actionColor paints an action on a terminal.
func (a *app) actionColor(action string) string {
	if !a.color() {
		return action
	}
	return cmp.Or(actionColors[strings.TrimSpace(action)], styles.Cyan) + action + styles.Reset
}

var actionColors = map[string]string{"created": styles.Green, "deleted": styles.Red, "restored": styles.Bold, "captured": styles.Bold}
