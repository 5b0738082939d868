package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/snapshot"
)

func restoreCommand(a *app) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "restore NAME [PATH]... [--dry-run]",
		Short: "Make the workspace, or some paths of it, equal to a snapshot",
		Long: `Makes the workspace equal to the snapshot NAME: what changed since gets its
captured contents back, what was deleted comes back, what came later goes. With
PATHs, relative to the current directory, only those files and directories.

The state before is captured first, so "amberfs undo" takes it back. Open files
and shells inside go on; unchanged files are not touched. Files brought back by
PATH get the present time as mtime, so that build tools notice.`,
		Example: `  amberfs restore v1
  amberfs restore v1 go.mod internal/
  amberfs restore v1 --dry-run`,
		Args:              args(1, -1, "a NAME and perhaps PATHs"),
		ValidArgsFunction: a.completeSnapshots(1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			paths, err := relPaths(p, argv[1:])
			if err != nil {
				return err
			}
			req := api.Restore{Name: argv[0], Paths: snapshot.BytePaths(paths), DryRun: dryRun}
			var done api.Restored
			if err := a.ask(cmd.Context(), p, request{op: "restore", args: req}, &done); err != nil {
				return err
			}
			return a.printRestored(done)
		},
	}
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would change")
	return cmd
}

// printRestored tells what a restore changed.
func (a *app) printRestored(r api.Restored) error {
	if r.Paths == nil {
		r.Paths = []api.PathChange{}
	}
	return a.print(r, func() {
		head, change := "restored snapshot", "changed"
		if r.DryRun {
			head, change = "would restore snapshot", "would change"
		}
		if r.Changed == 0 {
			if r.DryRun {
				a.printf("%s %s (no files would change)\n", head, r.Snapshot)
			} else {
				a.printf("%s %s (no files changed)\n", head, r.Snapshot)
			}
			return
		}
		a.printf("%s %s (%d file(s) %s):\n", head, r.Snapshot, r.Changed, change)
		for _, c := range r.Paths {
			a.printf("%s\n", quote(c.Path))
		}
	})
}

// relPaths makes paths that the user gave relative to the workspace's root.
func relPaths(p locate.Place, argv []string) ([]string, error) {
	var out []string
	for _, arg := range argv {
		rel, err := relPath(p, arg)
		if err != nil {
			return nil, err
		}
		out = append(out, rel)
	}
	return out, nil
}

// relPath does it for one; the root itself is ".".
func relPath(p locate.Place, arg string) (string, error) {
	if arg == "" {
		return "", fail.New(fail.Usage, "a PATH is empty")
	}
	rel, err := p.Rel(arg)
	if errors.Is(err, locate.ErrOutside) {
		return "", fail.New(fail.Usage, "the path %w", err)
	}
	if err != nil {
		return "", err
	}
	if rel == "" {
		rel = "."
	}
	return rel, nil
}
