package main

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/naming"
)

func restoreCommand(a *app) *cobra.Command {
	var (
		dryRun bool
		keep   []string
	)
	cmd := &cobra.Command{
		Use:   "restore NAME [PATH]... [--keep PATH]... [--dry-run]",
		Short: "Make the workspace equal to a snapshot",
		Long: `Makes the workspace, or the given PATHs, equal to the snapshot NAME, and removes newer
files.

"amberfs undo" undoes it. Open files and shells stay usable. Files restored by PATH get
the present time as mtime, so that build tools rebuild them.

A restore of the whole workspace includes .git: later commits leave their branch.
restore_keeps in the policy is a --keep for every such restore.

./PATH or -- PATH without a NAME is "amberfs revert PATH".`,
		Example: `  amberfs restore v1
  amberfs restore v1 go.mod internal/
  amberfs restore v1 --keep .git
  amberfs restore ./src/parse.go`,
		Args: args(1, -1, "a NAME and perhaps PATHs"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, paths, err := a.paths(slices.Concat(argv[1:], keep)...)
			if err != nil {
				return err
			}
			if cmd.ArgsLenAtDash() == 0 && len(argv) > 1 {
				return errs.Fail(errs.Invalid, "restore -- takes one PATH; for several, name the snapshot before --")
			}

			var done snapshot.RestoreResult

			if asPath := cmd.ArgsLenAtDash() == 0 || strings.Contains(argv[0], "/"); asPath && len(argv) == 1 {
				if dryRun || len(keep) > 0 {
					return errs.Fail(errs.Invalid, "--dry-run and --keep need the NAME of a snapshot, and %s is a path", quote(argv[0]))
				}
				var path naming.BytePath
				if path, err = relPath(p, argv[0]); err == nil {
					err = a.ask(cmd.Context(), p, service.Revert{Path: path}, &done)
				}
			} else {
				n := len(argv) - 1
				err = a.ask(cmd.Context(), p, snapshot.RestoreOptions{Name: argv[0], Paths: paths[:n], Keep: paths[n:], DryRun: dryRun}, &done)
				err = a.orPath(err, argv[0])
			}
			if err != nil {
				return err
			}

			return a.print(done, func() { a.printResult(service.OpOf(snapshot.RestoreOptions{}).Text, nil, &done) })
		},
	}

	cmd.Flags().StringArrayVar(&keep, "keep", nil, "leave `PATH` as it is; repeatable")
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only print what would change")

	return cmd
}

// orPath adds a hint to the error of a snapshot that does not exist, if there is a path of that name.
func (a *app) orPath(err error, name string) error {
	wd, werr := a.cwd()
	if errs.ScriptKind(err) != errs.NotExist || werr != nil {
		return err
	}
	if _, serr := os.Lstat(filepath.Join(wd, name)); serr != nil {
		return err
	}

	e := *errs.ErrorOf(err)
	hint := e.Hint
	if hint != "" {
		hint += "\n"
	}

	return e.WithHint("%[1]sto restore the path %[2]s from the newest snapshot in which it differs, use `amberfs restore ./%[2]s`", hint, quote(name))
}

// maxPrinted is how many paths are listed without -v; more are counted.
const maxPrinted = 20

func (a *app) listed(paths []graft.PathChange) []graft.PathChange {
	if a.verbose || len(paths) <= maxPrinted {
		return paths
	}
	return paths[:maxPrinted]
}

// forkAt is where a caller at p sees a fork whose path the daemon knows: a run is mounted
// elsewhere than the workspace that it is a fork of.
func forkAt(p locate.Place, path string) string {
	if root, ok := p.Root(); ok {
		return filepath.Join(root, naming.ForksDir, filepath.Base(path))
	}
	return path
}

// paths returns the place, and the paths relative to the root of its workspace.
func (a *app) paths(argv ...string) (p locate.Place, out []naming.BytePath, err error) {
	p, err = a.place()
	for i := 0; err == nil && i < len(argv); i++ {
		var rel naming.BytePath
		rel, err = relPath(p, argv[i])
		out = append(out, rel)
	}

	return p, out, err
}

// relPath makes a path relative to the root of the workspace, which itself is ".".
func relPath(p locate.Place, arg string) (naming.BytePath, error) {
	if arg == "" {
		return "", errs.Fail(errs.Invalid, "a PATH is empty")
	}
	rel, err := p.Rel(arg)
	if errors.Is(err, locate.ErrOutside) {
		return "", errs.Fail(errs.Invalid, "the path %w", err)
	}
	if err != nil {
		return "", err
	}

	return naming.BytePath(cmp.Or(rel, ".")), nil
}

func undoCommand(a *app) *cobra.Command {
	var req snapshot.UndoByOptions
	var keep []string
	var turn int
	cmd := &cobra.Command{
		Use:   "undo [--keep PATH]... [--dry-run] [--turn N | --by ACTOR [--since T] [--ours|--theirs|--prefer SIDE] [PATH]...]",
		Short: "Undo the last restore, an agent's turns, or what one actor changed",
		Long: `Restores the state before the last restore. A second undo undoes the first.

--turn N restores the state before that turn of "amberfs list --turns".

--by ACTOR undoes what ACTOR changed, and keeps what all others changed, as git revert
does. Text that others changed later is merged by lines. Conflicts are listed, and then
nothing is changed. PATHs limit the undo.`,
		Example: `  amberfs undo --dry-run
  amberfs undo --by claude/4f2a --since 2h`,
		Args: func(cmd *cobra.Command, argv []string) error {
			if cmd.Flags().Changed("turn") && (turn < 1 || cmd.Flags().Changed("by")) {
				return errs.Fail(errs.Invalid, "--turn takes a number of `amberfs list --turns`, and no --by")
			}

			if req.By == "" {
				for _, flag := range []string{"since", "ours", "theirs", "prefer"} {
					if cmd.Flags().Changed(flag) {
						return errs.Fail(errs.Invalid, "--%s needs --by", flag)
					}
				}
				return args(0, 0, "no arguments")(cmd, argv)
			}

			return nil
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, paths, err := a.paths(slices.Concat(argv, keep)...)
			if err != nil {
				return err
			}

			req.Paths, req.Keep = paths[:len(argv)], paths[len(argv):]
			if !cmd.Flags().Changed("by") {
				name := "undo"
				if turn > 0 {
					name = turnName + strconv.Itoa(turn)
				}

				return a.showOpAt(cmd.Context(), p, snapshot.RestoreOptions{Name: name, Keep: req.Keep, DryRun: req.DryRun}, &service.Command{})
			}

			return a.showOpAt(cmd.Context(), p, req, &service.Command{})
		},
	}

	f := cmd.Flags()
	f.StringArrayVar(&keep, "keep", nil, "leave `PATH` as it is; repeatable")
	f.IntVar(&turn, "turn", 0, "restore the state before the turn `N`")
	f.BoolVarP(&req.DryRun, "dry-run", "n", false, "only print what would change")
	cmd.Flags().StringVar(&req.By, "by", "", "undo what `ACTOR` changed")
	f.StringVar(&req.Since, "since", "", "only changes since `T`: a snapshot, 2h, 7d, or a date")
	f.BoolVar(&req.Ours, "ours", false, "leave paths in conflict as they are")
	f.BoolVar(&req.Theirs, "theirs", false, "make paths in conflict what they were before ACTOR")
	addPrefer(cmd, &req.Ours, &req.Theirs, []string{sideWorkspace, sideRun, sideFork}, []string{"undo"})

	return cmd
}
