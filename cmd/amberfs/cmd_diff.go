package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
)

func diffCommand(a *app) *cobra.Command {
	var stat, nameStatus, binary bool
	var fork, by string
	cmd := &cobra.Command{
		Use:   "diff [A [B]|A..B] [FLAG]... [-- PATH...]",
		Short: "Show what changed between snapshots, or since one",
		Long: `Shows the changes from snapshot A to snapshot B or to now, as a unified diff that "git
apply" accepts. A is by default the latest snapshot or, with --fork, the fork's base.
PATHs after "--" limit the diff.`,
		Example: `  amberfs diff v1
  amberfs diff v1 v2 --stat
  amberfs diff v1 -- internal/ go.mod`,
		Args: func(cmd *cobra.Command, argv []string) error {
			names, _ := splitDash(cmd, argv)
			return args(0, 2, "perhaps snapshots A and B, then -- before PATHs")(cmd, names)
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			names, rest := splitDash(cmd, argv)
			p, paths, err := a.paths(rest...)
			if err != nil {
				return err
			}

			from := "latest"
			if fork != "" {
				p.Workspace, from = append(slices.Clone(p.Workspace), fork), "base"
			}

			req := service.Diff{A: from, By: by, Paths: paths, Binary: binary, Width: a.width()}
			if len(names) == 1 {
				names = strings.SplitN(names[0], "..", 2) // no name has two dots
			}
			if len(names) > 0 {
				req.A = names[0]
			}
			if len(names) > 1 {
				req.B = names[1]
			}

			switch {
			case stat && nameStatus:
				return errs.Fail(errs.Invalid, "--stat and --name-status cannot be combined")
			case a.json:
				var done service.Diffed
				return a.showed(&done, a.ask(cmd.Context(), p, service.Changes{A: req.A, B: req.B, By: by, Paths: req.Paths}, &done), nil)
			case stat:
				req.Format = "stat"
			case nameStatus:
				req.Format = "name-status"
			}

			return pathsAfterDash(a.showDiff(cmd, p, req), names)
		},
	}

	cmd.Flags().StringVar(&fork, "fork", "", "what the fork `NAME` changed")
	cmd.Flags().StringVar(&by, "by", "", "only files that `ACTOR` changed")
	cmd.Flags().BoolVar(&stat, "stat", false, "changed lines for each file")
	cmd.Flags().BoolVar(&nameStatus, "name-status", false, "only the status and path of each file")
	cmd.Flags().BoolVar(&binary, "binary", false, "binary files as a patch that git apply accepts")

	return cmd
}

// pathsAfterDash adds to an error about a name that it is one of a file.
func pathsAfterDash(err error, names []string) error {
	if errs.ScriptKind(err) != errs.NotExist {
		return err
	}

	for _, name := range names {
		if _, serr := os.Lstat(name); serr == nil {
			return errs.Fail(errs.NotExist, "%s", errs.ErrorOf(err).Msg).WithHint("paths come after --: amberfs diff -- %s", word(name))
		}
	}

	return err
}

func splitDash(cmd *cobra.Command, argv []string) (before, after []string) {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return argv[:n:n], argv[n:]
	}
	return argv, nil
}

func (a *app) showDiff(cmd *cobra.Command, p locate.Place, req service.Diff) error {
	bar := a.newProgress()
	defer bar.done()

	out := &diffWriter{a: a, bar: bar}
	if err := a.exchange(cmd.Context(), p, req, client.Exchange{Out: out}, nil); err != nil {
		if out.refused {
			return nil // the reader of the output had enough
		}
		return err
	}

	if err := out.flush(); err != nil {
		return nil
	}
	if out.n == 0 {
		a.printf("no differences\n")
	}

	return nil
}
