package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/snapshot"
)

func historyCommand(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "history PATH",
		Short: "List the snapshots in which a path was new, modified or deleted",
		Long: `Lists every snapshot in which PATH was created, modified or deleted compared with
the snapshot before it, newest first: what happened, the snapshot, its time, the
size and the message, with tabs between. Contents are compared, not sizes or
times. A line for "now" comes first when the path has changed since the newest
snapshot. With --all the snapshots in which it was unchanged are listed too.`,
		Args: args(1, 1, "one PATH"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			rel, err := relPath(p, argv[0])
			if err != nil {
				return err
			}
			var h api.History
			if err := a.ask(cmd.Context(), p, request{op: "history", args: api.PathHistory{Path: snapshot.BytePath(rel), All: all}}, &h); err != nil {
				return err
			}
			if h.Entries == nil {
				h.Entries = []api.HistoryEntry{}
			}
			return a.print(h, func() {
				a.usePager()
				for _, e := range h.Entries {
					name := e.Snapshot
					if name == "" {
						name = "now"
					}
					size := strconv.FormatInt(e.Size, 10)
					if e.Action == "deleted" {
						size = "-"
					}
					a.printf("%s\t%s\t%s\t%s\t%s\n", e.Action, name, e.Created.Format(time.RFC3339), size, oneLine(e.Message))
				}
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also the snapshots in which it was unchanged")
	return cmd
}
