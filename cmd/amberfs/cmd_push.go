package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func pushCommand(a *app) *cobra.Command {
	var req service.Push
	cmd := &cobra.Command{
		Use:   "push REMOTE SNAPSHOT... [--as NAME] [--force] [--full]",
		Short: "Send snapshots to a remote",
		Long: `Sends snapshots to REMOTE, a name from "amberfs remote add" or a URL. Only what is
not there yet is sent. A snapshot becomes visible when all of it is there. An
interrupted push continues when it is run again.

If the name is in use there for another snapshot, push exits with status 4.`,
		Example: `  amberfs push team v1
  amberfs push team latest --as nightly --force`,
		Args: args(2, -1, "a REMOTE and at least one SNAPSHOT"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Remote, req.Snapshots = argv[0], argv[1:]
			return show(a, cmd, req, func(done service.PushedList) {
				for _, p := range done.Pushed {
					a.printf("%s", pushedLine(req.Remote, p))
				}
			})
		},
	}
	cmd.Flags().StringVar(&req.As, "as", "", "use `NAME` there")
	cmd.Flags().BoolVar(&req.Force, "force", false, "replace a snapshot with that name")
	cmd.Flags().BoolVar(&req.Full, "full", false, "send everything again")
	return cmd
}

// pushedLine tells that a snapshot is on a remote.
func pushedLine(remote string, p service.Pushed) string {
	as := ""
	if p.As != p.Snapshot {
		as = " as " + p.As
	}
	if p.Unchanged {
		return fmt.Sprintf("snapshot %s is on %s already%s\n", p.Snapshot, remote, as)
	}
	return fmt.Sprintf("snapshot %s pushed to %s%s: %s\n", p.Snapshot, remote, as, bytesText(p.Bytes))
}

func pullCommand(a *app) *cobra.Command {
	var req service.Pull
	cmd := &cobra.Command{
		Use:   "pull REMOTE SNAPSHOT... [--as NAME]",
		Short: "Bring snapshots from a remote into the store",
		Long: `Copies snapshots of REMOTE, a name or a URL, into the store with everything they
need. An interrupted pull continues when it is run again. The workspace does not
change.`,
		Example: `  amberfs pull team v1
  amberfs pull s3://bucket/team v1 --as theirs`,
		Args: args(2, -1, "a REMOTE and at least one SNAPSHOT"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Remote, req.Snapshots = argv[0], argv[1:]
			return show(a, cmd, req, func(done service.PulledList) {
				for _, i := range done.Pulled {
					a.printf("snapshot %s pulled from %s: %s, %s\n", i.Name, req.Remote, plural(int(i.Files), "file", "files"), bytesText(i.Bytes))
				}
			})
		},
	}
	cmd.Flags().StringVar(&req.As, "as", "", "use `NAME` there")
	return cmd
}
