package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

func revertCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "revert PATH [NAME]",
		Short: "Bring one file or directory back",
		Long: `Brings PATH back to what it was in the snapshot NAME or, when none is named, in
the newest snapshot in which it differs from now. If it did not exist then, it
is deleted. The state before is captured first: "amberfs undo" takes it back.`,
		Args: args(1, 2, "a PATH and perhaps a NAME"),
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
			req := service.Revert{Path: snapshot.BytePath(rel)}
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
