package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func freezeCommand(a *app) *cobra.Command {
	var req service.Freeze
	cmd := &cobra.Command{
		Use:   "freeze [--for 30s]",
		Short: "Stop all changes for a while",
		Long: `Stops all changes to the store's workspaces, so that another program can copy a quiet
tree. Writers wait, readers continue. It ends with "amberfs thaw", or after --for.`,
		Example: `  amberfs freeze --for 10s`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, req, func(done service.Frozen) { a.printf("frozen until %s\n", done.Until.Format(time.RFC3339)) })
		},
	}
	cmd.Flags().StringVar(&req.For, "for", "30s", "end the freeze after this `TIME`")
	return cmd
}

func thawCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "thaw",
		Short:   "End a freeze",
		Example: `  amberfs thaw`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, service.Thaw{}, func(done service.Thawed) {
				if done.Thawed {
					a.printf("thawed\n")
				} else {
					a.printf("not frozen\n")
				}
			})
		},
	}
}
