package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func undoCommand(a *app) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "undo",
		Short: "Undo the last restore",
		Long: `Restores the state before the last restore. An undo is a restore too, so a second
undo takes the first one back.`,
		Example: `  amberfs undo --dry-run`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var done service.Restored
			req := service.Restore{Name: "undo", DryRun: dryRun}
			if err := a.askHere(cmd.Context(), req, &done); err != nil {
				return err
			}
			return a.printRestored(done)
		},
	}
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only print what would change")
	return cmd
}
