package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

func forkCommand(a *app) *cobra.Command {
	var end, discard, force bool
	var ttl string
	cmd := &cobra.Command{
		Use:   "fork [SNAPSHOT|label:KEY=VALUE|REMOTE@SNAPSHOT] NAME [--ttl 1h]",
		Short: "Create or delete a fork",
		Long: `Creates the fork NAME: a writable copy of SNAPSHOT, or of the present state, at
.forks/NAME. Forks share everything they do not change. Neither side sees the
other's writes.

REMOTE@SNAPSHOT is a pushed snapshot; REMOTE is a name or a URL ("amberfs help
remote"). File contents are fetched when they are read.

--delete deletes the fork NAME, as rmdir does. Its last state becomes a snapshot.
--discard deletes the fork and all forks in it, and keeps nothing.`,
		Example: `  amberfs fork v1 try-left
  amberfs fork try-right
  amberfs fork label:task=17 again --ttl 1h
  amberfs fork team@start box-18
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
				return a.endFork(cmd, argv, discard, force)
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
	cmd.Flags().BoolVarP(&end, "delete", "d", false, "delete the fork NAME; its last state becomes a snapshot")
	cmd.Flags().BoolVar(&discard, "discard", false, "delete the fork NAME and keep nothing")
	cmd.Flags().BoolVar(&force, "force", false, "with --delete or --discard, also if programs run in it")
	cmd.Flags().StringVar(&ttl, "ttl", "", "delete the fork after this `TIME`: 30m, 1h, 7d")
	return cmd
}

func (a *app) endFork(cmd *cobra.Command, argv []string, discard, force bool) error {
	if len(argv) != 1 {
		return fail.New(fail.Usage, "amberfs fork --delete and --discard take one NAME").WithHint("see `amberfs help fork`")
	}
	var done service.DeletedFork
	if err := a.askHere(cmd.Context(), service.DeleteFork{Name: argv[0], Discard: discard, Force: force}, &done); err != nil {
		return err
	}
	if discard {
		return a.print(done, func() { a.printf("fork %s is gone; nothing of it is kept\n", done.Name) })
	}
	return a.print(done, func() { a.printf("fork %s ended; its last state is the snapshot %s\n", done.Name, done.Snapshot) })
}
