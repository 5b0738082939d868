package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/naming"
)

func revertCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "revert PATH [NAME]",
		Short: "Restore one path from the newest snapshot in which it differs",
		Long: `Restores PATH from the snapshot NAME, or from the newest snapshot in which it
differs from now. If PATH did not exist then, it is removed. "amberfs undo" takes
this back.`,
		Example: `  amberfs revert src/parse.go`,
		Args:    args(1, 2, "a PATH and perhaps a NAME"),
		ValidArgsFunction: func(cmd *cobra.Command, argv []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(argv) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.completeSnapshots(2)(cmd, argv, prefix)
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			rel, err := relPath(p, argv[0])
			if err != nil {
				return err
			}
			req := service.Revert{Path: naming.BytePath(rel)}
			if len(argv) == 2 {
				req.Name = argv[1]
			}
			var done service.Restored
			if err := a.ask(cmd.Context(), p, req, &done); err != nil {
				return err
			}
			return a.printRestored(done)
		},
	}
}
