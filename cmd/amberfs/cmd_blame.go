package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func actorCommand(a *app) *cobra.Command {
	var pid uint32
	cmd := &cobra.Command{
		Use:   "actor NAME [--pid PID]",
		Short: "Name the actor of a process's changes",
		Long: `Later changes of the calling process and its descendants are by the actor NAME. In a
fork, the name counts in that fork only.`,
		Example: `  amberfs actor alice
  amberfs actor claude/4f2a --pid $PPID`,
		Args: args(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req := service.Actor{Name: argv[0], PID: pid}
			if pid == 0 {
				req.Up = 1 // this process ends at once
			}

			return a.showOp(cmd, req)
		},
	}

	cmd.Flags().Uint32Var(&pid, "pid", 0, "the process `PID` instead of the caller")
	return cmd
}
