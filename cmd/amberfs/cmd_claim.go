package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func claimCommand(a *app) *cobra.Command {
	var from, ttl string
	cmd := &cobra.Command{
		Use:   "claim LABEL [--from SNAPSHOT|REMOTE@SNAPSHOT] [--ttl 1h]",
		Short: "Get the one fork that belongs to a label",
		Long: `Prints the path of the fork LABEL, and how it came about:

  resumed    it was there
  snapshot   it goes on from the newest snapshot labelled claim=LABEL, which it left
             when it ended
  fresh      it is new, and starts equal to SNAPSHOT or to the present state

With REMOTE@SNAPSHOT, one that was pushed, a fresh fork is there at once and what is
in its files is fetched when they are read. What a name on a remote means is asked
for at most once a minute.

All who claim a label, also at once, get the same fork. With --ttl it ends by
itself, as rmdir ends it, when nobody has claimed it for so long.`,
		Example: `  cd "$(amberfs claim box-17 --from base --ttl 1h --json | jq -r .path)"`,
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
	cmd.Flags().StringVar(&from, "from", "", "the `SNAPSHOT`, or REMOTE@SNAPSHOT, that a fresh one starts from; the present state if not given")
	cmd.Flags().StringVar(&ttl, "ttl", "", "end it by itself after this `TIME` without a claim: 30m, 1h, 7d")
	return cmd
}
