package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
)

func logCommand(a *app) *cobra.Command {
	var req service.Log
	cmd := &cobra.Command{
		Use:   "log [-f] [-n N] [--since T] [--action A] [--command C] [PATH]",
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
				rel, err := relPath(p, argv[0])
				if err != nil {
					return err
				}
				req.Path = naming.BytePath(rel)
			}
			if !req.Follow {
				a.usePager()
			}
			if req.Follow && req.Limit > 0 {
				past := req
				past.Follow, req.Limit = false, 0
				if err := a.exchange(cmd.Context(), p, past, client.Exchange{Item: func(line json.RawMessage) error {
					var e event
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
	f.StringVar(&req.Command, "command", "", "only commands that begin with `COMMAND`")
	return cmd
}

// event is what is printed of an event; --json prints all of it.
type event struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Action  string    `json:"action"`
	Path    string    `json:"path"`
	From    string    `json:"from"` // of a rename; of a restore the snapshot
	Detail  string    `json:"detail"`
	PID     uint32    `json:"pid"`
	Command string    `json:"command"`
}

func (a *app) printEvent(line json.RawMessage) error {
	if a.json {
		_, err := fmt.Fprintf(a.stdout, "%s\n", gitquote.JSON(line))
		return err
	}
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}
	_, err := fmt.Fprintln(a.stdout, e.text(a.color()))
	return err
}

// text is an event in one line.
func (e event) text(color bool) string {
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
		action = actionColor(e.Action) + action + colorReset
	}
	who := ""
	if e.PID != 0 || e.Command != "" {
		who = fmt.Sprintf("  %s[%d]", quote(e.Command), e.PID)
	}
	return e.Time.Local().Format("2006-01-02 15:04:05") + "  " + action + "  " + path + who
}

func actionColor(action string) string {
	switch action {
	case "created":
		return colorGreen
	case "deleted":
		return colorRed
	case "restored", "captured":
		return colorBold
	}
	return colorCyan
}
