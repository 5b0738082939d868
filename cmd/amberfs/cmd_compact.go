package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

func compactCommand(a *app) *cobra.Command {
	var req service.Compact
	cmd := &cobra.Command{
		Use:   "compact NAME NAME... --name NAME [-m MESSAGE]",
		Short: "Make one snapshot of several",
		Long: `Makes one snapshot that contains all files of the named snapshots. Of each path it
has the version of the newest snapshot that contains it. The named snapshots are
deleted, except pinned ones. If the policy protects one of them, nothing changes.`,
		Example:           `  amberfs compact mon tue wed --name first-half`,
		Args:              args(2, -1, "two NAMEs or more"),
		ValidArgsFunction: a.completeSnapshots(-1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			if req.Name == "" {
				return fail.New(fail.Usage, "the new snapshot needs a name").WithHint("give it with --name")
			}
			req.Names = argv
			return show(a, cmd, req, func(done service.Compacted) { a.printf("%s", compactedLines(done)) })
		},
	}
	cmd.Flags().StringVar(&req.Name, "name", "", "`NAME` of the new snapshot")
	cmd.Flags().StringVarP(&req.Message, "message", "m", "", "`MESSAGE` of the new snapshot")
	return cmd
}

// compactedLines tells what became of the snapshots.
func compactedLines(done service.Compacted) string {
	text := "snapshot " + done.Name + " created: " + done.ID + "\n"
	if len(done.Removed) > 0 {
		text += "deleted " + strings.Join(done.Removed, " ") + "\n"
	}
	if len(done.Kept) > 0 {
		text += "pinned, so kept: " + strings.Join(done.Kept, " ") + "\n"
	}
	return text
}
