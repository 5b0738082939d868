package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func claimCommand(a *app) *cobra.Command {
	var from, ttl string
	cmd := &cobra.Command{
		Use:   "claim LABEL [--from SNAPSHOT|REMOTE@SNAPSHOT] [--ttl 1h]",
		Short: "Get the fork with a label, or create it",
		Long: `Prints the path of the fork LABEL, and how it was found:

  resumed    the fork existed
  snapshot   a new fork, from the last state of an earlier fork with this label
  fresh      a new fork, from --from or from the present state

Concurrent claims of a label get the same fork. With REMOTE@SNAPSHOT, contents are
fetched when they are read, and the name is resolved at most once a minute.`,
		Example: `  cd "$(amberfs claim box-17 --from start --ttl 1h --json | jq -r .path)"`,
		Args:    args(1, 1, "a LABEL"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			var got service.Claimed
			if err := a.ask(cmd.Context(), p, service.Claim{Label: argv[0], From: from, TTL: ttl}, &got); err != nil {
				return err
			}
			got.Path = inside(p, got.Path)
			return a.print(got, func() { a.printf("%s\t%s\n", quote(got.Path), got.Tier) })
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "`SNAPSHOT` or REMOTE@SNAPSHOT that a new fork begins with. Default: the present state")
	cmd.Flags().StringVar(&ttl, "ttl", "", "delete the fork after this `TIME` without a claim: 30m, 1h, 7d")
	return cmd
}
