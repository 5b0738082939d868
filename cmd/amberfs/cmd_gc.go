package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func gcCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Free space that nothing needs",
		Long: `Frees the disk space of everything that no snapshot and no workspace needs. It also runs
in the background. It works on a full disk.`,
		Example: `  amberfs gc`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, service.GC{}, func(done service.Collected) {
				if done.Bytes == 0 && done.Objects == 0 {
					a.printf("nothing to free\n")
					return
				}
				a.printf("freed %s (%d objects)\n", bytesText(done.Bytes), done.Objects)
			})
		},
	}
}
