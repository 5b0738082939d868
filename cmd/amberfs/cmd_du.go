package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/usage"
)

func duCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "du [SNAPSHOT]...",
		Short: "Show the space that snapshots and forks use alone",
		Long: `Shows for each snapshot and fork, or for the given SNAPSHOTs, the bytes on disk that its
deletion would free. The last line shows what deleting all of these snapshots would free,
including data that only they share.`,
		Example: `  amberfs du
  amberfs du v1 v2`,
		Args: args(0, -1, "any SNAPSHOTs"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.DU{Names: argv}, func(u usage.Disk) {
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
