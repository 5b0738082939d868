package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

func mergeCommand(a *app) *cobra.Command {
	var req service.Merge
	cmd := &cobra.Command{
		Use:     "merge FORK [--ours|--theirs] [--dry-run]",
		Aliases: []string{"promote"},
		Short:   "Bring a fork's changes into the workspace",
		Long: `Merges what the fork changed since its base into the workspace that it was forked
from. Text that both sides changed is merged by lines, as git merge does. If changes
conflict, the paths are listed and nothing is changed. --ours keeps the workspace's
version of conflicting paths, --theirs takes the fork's.

A snapshot is taken first, so "amberfs undo" takes the merge back. The fork stays;
"amberfs fork --delete FORK" deletes it.`,
		Example: `  amberfs merge idea
  amberfs merge idea --theirs`,
		Args:              args(1, 1, "one FORK"),
		ValidArgsFunction: a.completeForks,
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Fork = argv[0]
			if req.Ours && req.Theirs {
				return fail.New(fail.Usage, "--ours and --theirs cannot be combined")
			}
			var done service.Merged
			err := a.askHere(cmd.Context(), req, &done)
			if err != nil && len(done.Conflicts) == 0 {
				return err
			}
			if err != nil {
				return a.printFailed(done, err, func() { a.printPaths(done.Conflicts) })
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
	cmd.Flags().BoolVar(&req.Ours, "ours", false, "keep the workspace's version of conflicting paths")
	cmd.Flags().BoolVar(&req.Theirs, "theirs", false, "take the fork's version of conflicting paths")
	cmd.Flags().BoolVarP(&req.DryRun, "dry-run", "n", false, "only list what would change")
	return cmd
}

// promotedLines is what a merge changed, a path a line.
func promotedLines(done service.Merged) string {
	if done.DryRun {
		return "would merge fork " + done.Fork + changedLines(done.Changed, "(no files would change)", "would change", done.Paths, 0)
	}
	return "merged fork " + done.Fork + changedLines(done.Changed, "(no files changed)", "changed", done.Paths, 0)
}
