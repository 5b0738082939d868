package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

func forkCommand(a *app) *cobra.Command {
	var end, discard bool
	var ttl string
	cmd := &cobra.Command{
		Use:   "fork [SNAPSHOT|label:KEY=VALUE|REMOTE@SNAPSHOT] NAME [--ttl 1h]",
		Short: "Make a writable workspace that starts equal to a snapshot",
		Long: `Makes the fork NAME, a workspace of its own at .forks/NAME that starts equal to
SNAPSHOT, or to the present state when none is named. It costs nothing: forks
share everything that they do not change. Neither ever sees the other's writes.

REMOTE@SNAPSHOT is one that was pushed; REMOTE is a name or a URL ("amberfs help
remote"). What is in its files is fetched when they are read.

"amberfs fork --delete NAME" ends it, as rmdir does: its last state becomes a
snapshot of this workspace first. "amberfs fork --discard NAME" ends the
forks in it, too, and keeps nothing.`,
		Example: `  amberfs fork v1 try-left
  amberfs fork try-right
  amberfs fork label:claim=box-17 again --ttl 1h
  amberfs fork origin@base box-18
  amberfs fork --delete try-right`,
		Args: args(1, 2, "perhaps a SNAPSHOT, and a NAME"),
		ValidArgsFunction: func(cmd *cobra.Command, argv []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if end || discard {
				return a.completeForks(cmd, argv, prefix)
			}
			return a.completeSnapshots(1)(cmd, argv, prefix)
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			if end && discard || (end || discard) && ttl != "" {
				return fail.New(fail.Usage, "--delete, --discard and --ttl exclude each other")
			}
			if end || discard {
				return a.endFork(cmd, argv, discard)
			}
			req := service.Fork{Name: argv[len(argv)-1], TTL: ttl}
			if len(argv) == 2 {
				req.Snapshot = argv[0]
			}
			var made service.Forked
			p, err := a.place()
			if err != nil {
				return err
			}
			if err := a.ask(cmd.Context(), p, req, &made); err != nil {
				return err
			}
			made.Path = inside(p, made.Path)
			return a.print(made, func() { a.printf("fork %s created: %s\n", made.Name, quote(made.Path)) })
		},
	}
	cmd.Flags().BoolVarP(&end, "delete", "d", false, "end the fork NAME instead, after capturing its last state")
	cmd.Flags().BoolVar(&discard, "discard", false, "end the fork NAME instead, and keep nothing of it")
	cmd.Flags().StringVar(&ttl, "ttl", "", "end it by itself after this `TIME`: 30m, 1h, 7d")
	return cmd
}

func (a *app) endFork(cmd *cobra.Command, argv []string, discard bool) error {
	if len(argv) != 1 {
		return fail.New(fail.Usage, "amberfs fork --delete and --discard take one NAME").WithHint("see `amberfs help fork`")
	}
	var done service.Ended
	if err := a.askHere(cmd.Context(), service.EndFork{Name: argv[0], Discard: discard}, &done); err != nil {
		return err
	}
	if discard {
		return a.print(done, func() { a.printf("fork %s is gone; nothing of it is kept\n", done.Name) })
	}
	return a.print(done, func() { a.printf("fork %s ended; its last state is the snapshot %s\n", done.Name, done.Snapshot) })
}
