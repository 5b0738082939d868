package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
)

// nudgeCommand is what the daemon starts to have inotify report a restore.
func nudgeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    daemon.NudgeCommand,
		Hidden: true,
		Args:   args(0, 0, "no arguments"),
		RunE:   func(*cobra.Command, []string) error { return daemon.Nudge(a.stdin) },
	}
}
