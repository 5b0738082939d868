package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func forksCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "forks",
		Short: "List forks",
		Long: `Lists the forks of the workspace: name, base, time, snapshots, changed files and the
remaining time to live, separated by tabs.`,
		Example: `  amberfs forks`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var l service.ForkList
			if err := a.askHere(cmd.Context(), service.Forks{}, &l); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(l.Forks)
			}
			a.printRows(forkRows(l.Forks))
			return nil
		},
	}
}

// forkRows is a listing of forks, a row a fork.
func forkRows(forks []service.ForkState) [][]string {
	if len(forks) == 0 {
		return [][]string{{"no forks"}}
	}
	var rows [][]string
	for _, f := range forks {
		from := f.Base
		if from == "" {
			from = "-"
		}
		changed := plural(f.Changed, "file", "files") + " changed"
		if f.More {
			changed = "at least " + changed
		}
		ttl := "-"
		if f.TTL != "" {
			ttl = "ttl " + f.TTL
		}
		rows = append(rows, []string{f.Name, from, f.Created.Format(time.RFC3339), plural(f.Snapshots, "snapshot", "snapshots"), changed, ttl})
	}
	return rows
}
