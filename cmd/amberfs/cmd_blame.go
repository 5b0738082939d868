package main

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func blameCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "blame PATH",
		Short: "Show which change each line of a file came with",
		Long: `Prints for each line of PATH, separated by tabs: the first snapshot with it, the actors
that changed the file then, their last command, its time, the line's number and its
text. "now" is the present state, "base" what the workspace began with.`,
		Example: `  amberfs blame src/parse.go`,
		Args:    args(1, 1, "one PATH"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, paths, err := a.paths(argv[0])
			if err != nil {
				return err
			}
			return showAt(cmd.Context(), a, p, service.Blame{Path: paths[0]}, func(b service.Blamed) {
				a.usePager()
				a.printRows(blameRows(b))
			})
		},
	}
}

func blameRows(b service.Blamed) [][]string {
	rows := make([][]string, 0, len(b.Lines))
	for _, l := range b.Lines {
		rows = append(rows, []string{
			cmp.Or(l.Snapshot, "now"), strings.Join(l.Actors, ","), service.OneLine(l.Command), l.Time.Format(time.RFC3339), strconv.Itoa(l.Line),
			strings.ToValidUTF8(l.Text, "\uFFFD"),
		})
	}
	return rows
}

func actorsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "actors",
		Short: "List the actors that changed the workspace",
		Long: `Lists the actors that changed the workspace, the last one first: name, number of
snapshots with its changes, first and last time, separated by tabs.`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, service.Actors{}, func(l service.ActorList) {
				var rows [][]string
				for _, s := range l.Actors {
					rows = append(rows, []string{s.Name, plural(s.Snapshots, "snapshot", "snapshots"), s.First.Format(time.RFC3339), s.Last.Format(time.RFC3339)})
				}
				a.printRows(rows)
			})
		},
	}
}

func undoneLines(done service.UndoneBy) string {
	text := changedLines("undid", "would undo", done.DryRun, "the changes by "+done.Actor, done.Changed, done.Paths, 0)
	for _, p := range done.Kept {
		text += "kept as it is: " + quote(p) + "\n"
	}
	for _, p := range done.Conflicts {
		text += "in conflict: " + quote(p) + "\n"
	}
	for _, p := range done.Shared {
		text += "also changed by others between the same snapshots: " + quote(p) + "\n"
	}
	if done.Later {
		text += done.Actor + " has changed more since; these changes stay\n"
	}
	return text
}

func actorCommand(a *app) *cobra.Command {
	var pid uint32
	cmd := &cobra.Command{
		Use:   "actor NAME [--pid PID]",
		Short: "Name the actor of a process's changes",
		Long: `Later changes of the calling process and its descendants are by the actor NAME. In a
fork, the name counts in that fork only.`,
		Example: `  amberfs actor alice
  amberfs actor claude/4f2a --pid $PPID`,
		Args: args(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req := service.Actor{Name: argv[0], PID: pid}
			if pid == 0 {
				req.Up = 1 // this process ends at once
			}
			return show(a, cmd, req, func(done service.Registered) {
				a.printf("process %d is actor %s\n", done.PID, done.Name)
			})
		},
	}
	cmd.Flags().Uint32Var(&pid, "pid", 0, "the process `PID` instead of the caller")
	return cmd
}
