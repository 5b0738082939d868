package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func rmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Delete snapshots",
		Long: `Deletes snapshots. If one name is unknown or protected, none is deleted. Other
snapshots and forks do not change. "amberfs gc" frees the space at once; otherwise
it is freed in the background.`,
		Example:           `  amberfs rm v1 v2`,
		Args:              args(1, -1, "at least one NAME"),
		ValidArgsFunction: a.completeSnapshots(-1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.Remove{Names: argv}, func(done service.Removed) {
				for _, name := range done.Names {
					a.printf("snapshot %s deleted\n", name)
				}
			})
		},
	}
}
