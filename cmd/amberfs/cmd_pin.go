package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func pinCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "pin NAME...",
		Short: "Protect snapshots from deletion",
		Long: `Protects snapshots from deletion by users, expiry and policy, until "amberfs unpin".
If one name is unknown, nothing changes.`,
		Example:           `  amberfs pin v1`,
		Args:              args(1, -1, "at least one NAME"),
		ValidArgsFunction: a.completeSnapshots(-1),
		RunE:              func(cmd *cobra.Command, argv []string) error { return a.pin(cmd, argv, true) },
	}
}

func unpinCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "unpin NAME...",
		Short:             "Allow deletion of pinned snapshots",
		Example:           `  amberfs unpin v1`,
		Args:              args(1, -1, "at least one NAME"),
		ValidArgsFunction: a.completeSnapshots(-1),
		RunE:              func(cmd *cobra.Command, argv []string) error { return a.pin(cmd, argv, false) },
	}
}

func (a *app) pin(cmd *cobra.Command, names []string, on bool) error {
	var done service.Pinned
	if err := a.askHere(cmd.Context(), service.Pin{Names: names, Pin: on}, &done); err != nil {
		return err
	}
	word := "pinned"
	if !on {
		word = "unpinned"
	}
	return a.print(done, func() {
		for _, name := range done.Names {
			a.printf("snapshot %s %s\n", name, word)
		}
	})
}
