package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/naming"
)

func historyCommand(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "history PATH",
		Short: "List the snapshots in which a path changed",
		Long: `Lists every snapshot in which PATH was created, modified or deleted, newest first:
action, snapshot, time, size and message, separated by tabs. A first line "now"
says that PATH changed since the newest snapshot. Contents are compared, not times.`,
		Example: `  amberfs history src/parse.go`,
		Args:    args(1, 1, "one PATH"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			rel, err := relPath(p, argv[0])
			if err != nil {
				return err
			}
			var h service.History
			if err := a.ask(cmd.Context(), p, service.PathHistory{Path: naming.BytePath(rel), All: all}, &h); err != nil {
				return err
			}
			return a.print(h, func() {
				a.usePager()
				a.printf("%s", joinRows(historyRows(h)))
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also list snapshots in which it did not change")
	return cmd
}

// historyRows is a history, a row a snapshot.
func historyRows(h service.History) [][]string {
	var rows [][]string
	for _, e := range h.Entries {
		name, size := e.Snapshot, strconv.FormatInt(e.Size, 10)
		if name == "" {
			name = "now"
		}
		if e.Action == "deleted" {
			size = "-"
		}
		rows = append(rows, []string{e.Action, name, e.Created.Format(time.RFC3339), size, service.OneLine(e.Message)})
	}
	return rows
}
