package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

func renameCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "rename A B",
		Aliases:           []string{"mv"},
		Short:             "Rename snapshot A to B",
		Example:           `  amberfs rename cp-7 v1`,
		Args:              args(2, 2, "the present name A and the new name B"),
		ValidArgsFunction: a.completeSnapshots(1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req := service.Rename{From: argv[0], To: argv[1]}
			return show(a, cmd, req, func(info snapshot.Info) { a.printf("snapshot %s renamed to %s\n", req.From, req.To) })
		},
	}
}
