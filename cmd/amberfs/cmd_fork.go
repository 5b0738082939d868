package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
)

func forkCommand(a *app) *cobra.Command {
	var end bool
	cmd := &cobra.Command{
		Use:   "fork [SNAPSHOT] NAME",
		Short: "Make a writable workspace that starts equal to a snapshot",
		Long: `Makes the fork NAME, a workspace of its own at .forks/NAME that starts equal to
SNAPSHOT, or to the present state when none is named. It costs nothing: forks
share everything that they do not change. Neither ever sees the other's writes.

"amberfs fork --delete NAME" ends it, as rmdir does: its last state becomes a
snapshot of this workspace first.`,
		Example: `  amberfs fork v1 try-left
  amberfs fork try-right
  amberfs fork --delete try-right`,
		Args: args(1, 2, "perhaps a SNAPSHOT, and a NAME"),
		ValidArgsFunction: func(cmd *cobra.Command, argv []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if end {
				return a.completeForks(cmd, argv, prefix)
			}
			return a.completeSnapshots(1)(cmd, argv, prefix)
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			if end {
				return a.endFork(cmd, argv)
			}
			req := api.Fork{Name: argv[len(argv)-1]}
			if len(argv) == 2 {
				req.Snapshot = argv[0]
			}
			var made api.Forked
			if err := a.askHere(cmd.Context(), request{op: "fork", args: req}, &made); err != nil {
				return err
			}
			return a.print(made, func() { a.printf("fork %s created: %s\n", made.Name, quote(made.Path)) })
		},
	}
	cmd.Flags().BoolVarP(&end, "delete", "d", false, "end the fork NAME instead, after capturing its last state")
	return cmd
}

func (a *app) endFork(cmd *cobra.Command, argv []string) error {
	if len(argv) != 1 {
		return fail.New(fail.Usage, "amberfs fork --delete takes one NAME").WithHint("see `amberfs help fork`")
	}
	var done api.Ended
	if err := a.askHere(cmd.Context(), request{op: "end-fork", args: api.Name{Name: argv[0]}}, &done); err != nil {
		return err
	}
	return a.print(done, func() { a.printf("fork %s ended; its last state is the snapshot %s\n", done.Name, done.Snapshot) })
}
