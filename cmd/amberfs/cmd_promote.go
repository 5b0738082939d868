package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
)

func promoteCommand(a *app) *cobra.Command {
	var req api.Promote
	cmd := &cobra.Command{
		Use:   "promote FORK [--ours|--theirs]",
		Short: "Merge a fork's changes into the workspace",
		Long: `Brings what the fork changed since its origin into the workspace that it was
forked from. Paths that only one side changed are merged file by file. If a path
was changed on both sides, the paths are listed and nothing is touched, unless
--ours (keep the workspace's) or --theirs (take the fork's) decides.

The state before is captured first: "amberfs undo" takes it back. The fork stays;
"rmdir .forks/FORK" ends it.`,
		Args:              args(1, 1, "one FORK"),
		ValidArgsFunction: a.completeForks,
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Fork = argv[0]
			if req.Ours && req.Theirs {
				return fail.New(fail.Usage, "--ours and --theirs exclude each other")
			}
			var done api.Promoted
			err := a.askHere(cmd.Context(), request{op: "promote", args: req}, &done)
			if err != nil && len(done.Conflicts) == 0 {
				return err
			}
			if err != nil {
				var e *fail.Error
				if errors.As(err, &e) && e.Hint == "" {
					e.Hint = "decide with --ours or --theirs"
				}
				if a.json {
					if perr := a.printJSON(done); perr != nil {
						return perr
					}
					return fail.Quiet(fail.KindOf(err))
				}
				for _, c := range done.Conflicts {
					a.printf("%s\n", quote(c))
				}
				return err
			}
			if done.Paths == nil {
				done.Paths = []api.PathChange{}
			}
			return a.print(done, func() {
				if done.Changed == 0 {
					a.printf("promoted fork %s (no files changed)\n", done.Fork)
					return
				}
				a.printf("promoted fork %s (%d file(s) changed):\n", done.Fork, done.Changed)
				for _, c := range done.Paths {
					a.printf("%s\n", quote(c.Path))
				}
			})
		},
	}
	cmd.Flags().BoolVar(&req.Ours, "ours", false, "where both sides changed a path, keep the workspace's")
	cmd.Flags().BoolVar(&req.Theirs, "theirs", false, "where both sides changed a path, take the fork's")
	return cmd
}
