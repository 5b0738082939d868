package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
)

func diffCommand(a *app) *cobra.Command {
	var stat, nameStatus, binary bool
	cmd := &cobra.Command{
		Use:   "diff A [B] [-- PATH...] [--stat|--name-status]",
		Short: "Show what changed from snapshot A to B, or to now",
		Long: `Shows what changed from snapshot A to snapshot B, or to the present state when
only A is named: a unified diff that "git apply" takes. PATHs after "--", relative
to the current directory, limit it. When nothing differs it prints
"no differences".`,
		Example: `  amberfs diff v1
  amberfs diff v1 v2 --stat
  amberfs diff v1 -- internal/ go.mod`,
		Args: func(cmd *cobra.Command, argv []string) error {
			names := argv
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				names = argv[:n]
			}
			return args(1, 2, "a snapshot A and perhaps B, then -- before PATHs")(cmd, names)
		},
		ValidArgsFunction: a.completeSnapshots(2),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			var rest []string
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				argv, rest = argv[:n], argv[n:]
			}
			paths, err := relPaths(p, rest)
			if err != nil {
				return err
			}
			req := api.Diff{A: argv[0], Paths: snapshot.BytePaths(paths), Format: "patch", Binary: binary, Width: a.width()}
			if len(argv) == 2 {
				req.B = argv[1]
			}
			switch {
			case stat && nameStatus:
				return fail.New(fail.Usage, "--stat and --name-status exclude each other")
			case a.json:
				req.Format = "json"
			case stat:
				req.Format = "stat"
			case nameStatus:
				req.Format = "name-status"
			}
			return a.showDiff(cmd, func(r request, result *api.DiffResult) error {
				r.args = req
				return a.ask(cmd.Context(), p, r, result)
			})
		},
	}
	cmd.Flags().BoolVar(&stat, "stat", false, "show a line a file, and how much changed in it")
	cmd.Flags().BoolVar(&nameStatus, "name-status", false, "show a letter and a path a file")
	cmd.Flags().BoolVar(&binary, "binary", false, "show binary files as a patch that git apply takes")
	return cmd
}

// showDiff prints what ask gives.
func (a *app) showDiff(cmd *cobra.Command, ask func(request, *api.DiffResult) error) error {
	out := newDiffWriter(a)
	var result api.DiffResult
	if err := ask(request{op: "diff", output: out}, &result); err != nil {
		if out.refused {
			return nil // the reader of the output had enough
		}
		return err
	}
	if err := out.flush(); err != nil {
		return nil
	}
	if a.json {
		if result.Paths == nil {
			result.Paths = []api.DiffedFile{}
		}
		return a.printJSON(result)
	}
	if out.n == 0 {
		a.printf("no differences\n")
	}
	return nil
}
