package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func undoCommand(a *app) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "undo",
		Short: "Take the last restore back",
		Long: `Brings back the state that the last restore captured before it began. An undo is
a restore itself, so a second undo goes forward again.`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var done service.Restored
			req := service.Restore{Name: "undo", DryRun: dryRun}
			if err := a.askHere(cmd.Context(), req, &done); err != nil {
				return err
			}
			return a.printRestored(done)
		},
	}
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would change")
	return cmd
}
