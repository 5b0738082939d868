package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

func duCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "du [SNAPSHOT]...",
		Short: "Tell what deleting snapshots and forks would give back",
		Long: `Tells what each snapshot and fork alone keeps: the bytes on disk that would be
given back if it, and nothing else, were deleted (a fork with --discard). What two
snapshots share is kept by neither alone; the last line tells what would be given
back if all that are listed were deleted, but for the forks.

With SNAPSHOTs it tells about these. "amberfs gc" gives it back when they are
deleted; it also happens by itself.`,
		Args:              args(0, -1, "any SNAPSHOTs"),
		ValidArgsFunction: a.completeSnapshots(-1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var u snapshot.DiskUsage
			if err := a.askHere(cmd.Context(), service.DU{Names: argv}, &u); err != nil {
				return err
			}
			return a.print(u, func() {
				rows := [][]string{}
				for _, s := range u.Snapshots {
					rows = append(rows, []string{bytesText(s.Bytes), s.Name})
				}
				for _, f := range u.Forks {
					rows = append(rows, []string{bytesText(f.Bytes), ".forks/" + f.Name})
				}
				rows = append(rows, []string{bytesText(u.Together), plural(len(u.Snapshots), "snapshot", "snapshots") + " together"})
				a.printf("%s", joinRows(rows))
			})
		},
	}
}
