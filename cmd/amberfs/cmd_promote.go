package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

func promoteCommand(a *app) *cobra.Command {
	var req service.Promote
	cmd := &cobra.Command{
		Use:   "promote FORK [--ours|--theirs]",
		Short: "Merge a fork's changes into the workspace",
		Long: `Brings what the fork changed since its origin into the workspace that it was
forked from. Paths that only one side changed are merged file by file, and text
that both sides changed by lines, as git merge does. If changes are in conflict,
the paths are listed and nothing is touched, unless --ours (keep the workspace's)
or --theirs (take the fork's) decides about them.

The state before is captured first: "amberfs undo" takes it back. The fork stays;
"rmdir .forks/FORK" ends it.`,
		Args:              args(1, 1, "one FORK"),
		ValidArgsFunction: a.completeForks,
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Fork = argv[0]
			if req.Ours && req.Theirs {
				return fail.New(fail.Usage, "--ours and --theirs exclude each other")
			}
			var done service.Promoted
			err := a.askHere(cmd.Context(), req, &done)
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
			if text := openText(done.Open); text != "" && !a.json {
				defer a.note("%s", text)
			}
			return a.print(done, func() {
				done.Paths = a.listed(done.Paths)
				a.printf("%s", promotedLines(done))
			})
		},
	}
	cmd.Flags().BoolVar(&req.Ours, "ours", false, "where both sides changed a path, keep the workspace's")
	cmd.Flags().BoolVar(&req.Theirs, "theirs", false, "where both sides changed a path, take the fork's")
	return cmd
}

// promotedLines is what a promotion changed, a path a line.
func promotedLines(done service.Promoted) string {
	return "promoted fork " + done.Fork + changedLines(done.Changed, "(no files changed)", "changed", done.Paths)
}
