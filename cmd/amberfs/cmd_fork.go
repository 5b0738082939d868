package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

func forkCommand(a *app) *cobra.Command {
	var req snapshot.ForkOptions
	var end service.DeleteFork
	var ends bool
	cmd := &cobra.Command{
		Use:   "fork [[FORK/]SNAPSHOT|label:KEY=VALUE|REMOTE@SNAPSHOT] NAME [--ttl 1h] [--as ACTOR]",
		Short: "Create or delete a fork",
		Long: `Creates the fork NAME: a writable copy of SNAPSHOT, or of the present state, at
.forks/NAME. Neither side sees the other's writes.

--discard also deletes the forks in it. --delete is refused if there are any.`,
		Example: `  amberfs fork v1 try-left
  amberfs fork try-right
  amberfs fork label:task=17 again --ttl 1h
  amberfs fork team@start box-18
  amberfs fork --delete try-right`,
		Args: args(1, 2, "perhaps a SNAPSHOT, and a NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			if ends && end.Discard || (ends || end.Discard) && req.TTL != "" {
				return errs.Fail(errs.Invalid, "--delete, --discard and --ttl cannot be used together")
			}

			if ends || end.Discard {
				if len(argv) != 1 {
					return errs.Fail(errs.Invalid, "amberfs fork --delete and --discard take one NAME").WithHint("see `amberfs help fork`")
				}
				end.Name = argv[0]
				return a.showOp(cmd, end)
			}

			req.Name, req.Snapshot = argv[len(argv)-1], strings.Join(argv[:len(argv)-1], "")
			return a.showOp(cmd, req)
		},
	}

	cmd.Flags().BoolVarP(&ends, "delete", "d", false, "delete the fork NAME; its last state becomes a snapshot")
	cmd.Flags().BoolVar(&end.Discard, "discard", false, "delete the fork NAME and keep nothing")
	cmd.Flags().BoolVar(&end.Force, "force", false, "with --delete or --discard, also if programs run in it")
	cmd.Flags().StringVar(&req.TTL, "ttl", "", "delete the fork after this `TIME`: 30m, 1h, 7d")
	cmd.Flags().StringVar(&req.As, "as", "", "changes from a virtual machine or gVisor are by this `ACTOR`, not by NAME")

	return cmd
}
