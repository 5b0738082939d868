package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
)

func listCommand(a *app) *cobra.Command {
	var req service.List
	var long, all bool
	cmd := &cobra.Command{
		Use:     "list [FLAG]...",
		Aliases: []string{"ls"},
		Short:   "List snapshots, newest first",
		Long: `Lists the snapshots of the workspace, newest first: name, the first 12 digits of the
id ("-" until it is stored), time and message, separated by tabs.`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if req.Since, err = sinceText(req.Since); err != nil {
				return err
			}
			if cmd.Flags().Changed("limit") && req.Limit < 1 {
				return fail.New(fail.Usage, "-n must be at least 1, not %d", req.Limit)
			}
			if !all && req.Kind == "" {
				req.Without = snapshot.KindPreRestore
			}
			var l service.Snapshots
			if err := a.askHere(cmd.Context(), req, &l); err != nil {
				return err
			}
			return a.print(l.Snapshots, func() {
				a.usePager()
				a.printRows(listRows(l.Snapshots, long))
			})
		},
	}
	f := cmd.Flags()
	f.IntVarP(&req.Limit, "limit", "n", 0, "only the newest `N`")
	f.BoolVar(&all, "all", false, "also snapshots that restores took first (kind pre-restore)")
	f.StringVar(&req.Since, "since", "", "only since this `TIME`: 2h, 7d, or a date (2026-01-31)")
	f.StringVar(&req.Kind, "kind", "", "only this `KIND`: manual, turn, actor, auto, pre-restore, fork, import, pull")
	cmd.Flags().StringVar(&req.By, "by", "", "only with changes of `ACTOR`")
	labelFlag(cmd, &req.Labels, "only with the label `KEY=VALUE`; repeatable")
	f.BoolVar(&long, "long", false, "also show kind, counts of changes (+/~/-) and labels")
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

// countsText is what happened since the snapshot before.
func countsText(c info.Counts) string {
	text := fmt.Sprintf("+%d ~%d -%d", c.Created, c.Modified, c.Deleted)
	if c.Restored > 0 {
		text += fmt.Sprintf(" (%d restored)", c.Restored)
	}
	return text
}

func listRows(infos []snapshot.Info, long bool) [][]string {
	if len(infos) == 0 {
		return [][]string{{"no snapshots"}}
	}
	rows := make([][]string, 0, len(infos))
	for _, i := range infos {
		row := service.Row(i)
		if long {
			row = append(row, i.Kind, countsText(i.Counts), labelText(i.Labels))
		}
		rows = append(rows, row)
	}
	return rows
}

// printRows prints rows in columns on a terminal, else with tabs between them.
func (a *app) printRows(rows [][]string) {
	if isTerminal(a.stdout) || a.closePager != nil {
		printTable(a.stdout, rows)
		return
	}
	a.printf("%s", joinRows(rows))
}

func joinRows(rows [][]string) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(strings.Join(r, "\t") + "\n")
	}
	return b.String()
}

// printTable prints rows in columns as wide as they need to be.
func printTable(w io.Writer, rows [][]string) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(columns, joinRows(rows))
	columns.Flush()
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
				return fail.New(fail.Usage, "-n must be at least 1, not %d", req.Limit)
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
	_, err := fmt.Fprintln(a.stdout, eventText(e, a.color()))
	return err
}

func eventText(e events.Event, color bool) string {
	path := quote(e.Path)
	switch {
	case e.Action == "captured":
		path = e.From
	case e.From != "":
		path += " (from " + quote(e.From) + ")"
	}
	if e.Detail != "" {
		path += ", " + service.OneLine(e.Detail)
	}
	action := fmt.Sprintf("%-8s", e.Action)
	if color {
		action = cmp.Or(actionColors[e.Action], styles.Cyan) + action + styles.Reset
	}
	who := ""
	if e.PID != 0 || e.Command != "" {
		who = fmt.Sprintf("  %s[%d]", quote(e.Command), e.PID)
	}
	return e.Time.Local().Format("2006-01-02 15:04:05") + "  " + action + "  " + path + who
}

var actionColors = map[string]string{"created": styles.Green, "deleted": styles.Red, "restored": styles.Bold, "captured": styles.Bold}

func historyCommand(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "history PATH",
		Short: "List the snapshots in which a path changed",
		Long: `Lists the snapshots in which PATH was created, modified or deleted, newest first:
action, snapshot, time, size and message, separated by tabs. "now" means that PATH
changed since the newest snapshot.`,
		Example: `  amberfs history src/parse.go`,
		Args:    args(1, 1, "one PATH"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, paths, err := a.paths(argv[0])
			if err != nil {
				return err
			}
			return showAt(cmd.Context(), a, p, service.PathHistory{Path: paths[0], All: all}, func(h service.History) {
				a.usePager()
				a.printf("%s", joinRows(historyRows(h)))
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also list snapshots in which it did not change")
	return cmd
}

func historyRows(h service.History) [][]string {
	var rows [][]string
	for _, e := range h.Entries {
		size := strconv.FormatInt(e.Size, 10)
		if e.Action == "deleted" {
			size = "-"
		}
		rows = append(rows, []string{e.Action, cmp.Or(e.Snapshot, "now"), e.Created.Format(time.RFC3339), size, service.OneLine(e.Message)})
	}
	return rows
}
