package main

import (
	_ "embed"
	"os"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
)

//go:embed demo.sh
var demoScript string

func demoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show snapshots and undo with a toy project",
		Long: `Makes a toy project in a temporary workspace, breaks it, shows the differences and
restores it. It takes a few seconds, needs no network, and leaves nothing, also when it is
interrupted.`,
		Example: `  amberfs demo`,
		Args:    argumentCountCheck(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}

			pause := "0"
			if a.out.isInteractive {
				pause = "0.7" // a person reads it
			}

			c := sandbox.Config{Command: []string{"/bin/sh", "-c", demoScript, "demo", program, pause}}
			return (&keptRun{a: a, restrictions: &restrictions{}}).runStore(cmd.Context(), c, "")
		},
	}
}
