package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/naming"
)

func undoCommand(a *app) *cobra.Command {
	var (
		dryRun bool
		keep   []string
	)
	cmd := &cobra.Command{
		Use:   "undo [--keep PATH]... [--dry-run]",
		Short: "Undo the last restore",
		Long: `Restores the state before the last restore. An undo is a restore too, so a second
undo takes the first one back.`,
		Example: `  amberfs undo --dry-run`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			kept, err := relPaths(p, keep)
			if err != nil {
				return err
			}
			var done service.Restored
			req := service.Restore{Name: "undo", Keep: naming.BytePaths(kept), DryRun: dryRun}
			if err := a.ask(cmd.Context(), p, req, &done); err != nil {
				return err
			}
			return a.printRestored(done)
		},
	}
	cmd.Flags().StringArrayVar(&keep, "keep", nil, "leave `PATH` as it is; repeatable")
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only print what would change")
	return cmd
}
