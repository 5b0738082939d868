package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
)

func forkCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "fork [SNAPSHOT] NAME",
		Short: "Make a writable workspace that starts equal to a snapshot",
		Long: `Makes the fork NAME, a workspace of its own at .forks/NAME that starts equal to
SNAPSHOT, or to the present state when none is named. It costs nothing: forks
share everything that they do not change. Neither ever sees the other's writes.`,
		Example: `  amberfs fork v1 try-left
  amberfs fork try-right`,
		Args:              args(1, 2, "perhaps a SNAPSHOT, and a NAME"),
		ValidArgsFunction: a.completeSnapshots(1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req := api.Fork{Name: argv[len(argv)-1]}
			if len(argv) == 2 {
				req.Snapshot = argv[0]
			}
			p, err := a.place()
			if err != nil {
				return err
			}
			var done api.Forked
			if err := a.ask(cmd.Context(), p, request{op: "fork", args: req}, &done); err != nil {
				return err
			}
			return a.print(done, func() { a.printf("fork %s created: %s\n", done.Name, done.Path) })
		},
	}
}
