package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/snapshot"
)

func logCommand(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "log [-f] [PATH]",
		Short: "Show what happened in the workspace, oldest first",
		Long: `Shows the events of the workspace, oldest first: time, action, path, and the
command and process that did it. With PATH only what happened at or below it;
with -f it goes on as things happen, until interrupted.`,
		Args: args(0, 1, "at most one PATH"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			req := api.Log{Follow: follow}
			if len(argv) == 1 {
				rel, err := relPath(p, argv[0])
				if err != nil {
					return err
				}
				req.Path = snapshot.BytePath(rel)
			}
			if !follow {
				a.usePager()
			}
			r := request{op: "log", args: req, onItem: a.printEvent}
			err = a.ask(cmd.Context(), p, r, nil)
			if follow && cmd.Context().Err() != nil {
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as things happen")
	return cmd
}

// event is what is printed of an event; --json prints all of it.
type event struct {
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
		_, err := fmt.Fprintf(a.stdout, "%s\n", line)
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
		path += ", " + oneLine(e.Detail)
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
