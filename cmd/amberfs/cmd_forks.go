package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/snapshot"
)

func forksCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "forks",
		Short: "List the forks of this workspace",
		Args:  args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var l api.Forks
			if err := a.askHere(cmd.Context(), request{op: "forks"}, &l); err != nil {
				return err
			}
			if a.json {
				if l.Forks == nil {
					l.Forks = []snapshot.ForkInfo{}
				}
				return a.printJSON(l.Forks)
			}
			printForks(a, l.Forks)
			return nil
		},
	}
}

// printForks is a line a fork, with tabs between the columns on a pipe.
func printForks(a *app, forks []snapshot.ForkInfo) {
	if len(forks) == 0 {
		a.printf("no forks\n")
		return
	}
	var rows [][]string
	for _, f := range forks {
		from := f.Origin
		if from == "" {
			from = "-"
		}
		rows = append(rows, []string{f.Name, from, f.Created.Format(time.RFC3339), plural(f.Snapshots, "snapshot", "snapshots")})
	}
	if isTerminal(a.stdout) {
		printTable(a.stdout, rows)
		return
	}
	for _, r := range rows {
		a.printf("%s\n", strings.Join(r, "\t"))
	}
}
