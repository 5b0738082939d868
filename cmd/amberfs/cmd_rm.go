package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func rmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Delete snapshots",
		Long: `Deletes snapshots. What only they held is freed in the background, or at once
by "amberfs gc". No other snapshot, and no fork, is changed by it.

If one of the names is unknown or protected, none is deleted.`,
		Args:              args(1, -1, "at least one NAME"),
		ValidArgsFunction: a.completeSnapshots(-1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var done service.Removed
			if err := a.askHere(cmd.Context(), service.Remove{Names: argv}, &done); err != nil {
				return err
			}
			return a.print(done, func() {
				for _, name := range done.Names {
					a.printf("snapshot %s deleted\n", name)
				}
			})
		},
	}
}
