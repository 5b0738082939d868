package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/snapshot"
)

func runCommand(a *app) *cobra.Command {
	var (
		c       sandbox.Config
		from    string
		options []string
	)
	cmd := &cobra.Command{
		Use:   "run [--from DIR] [STORE] -- COMMAND [ARGUMENT]...",
		Short: "Run a program in a workspace that only it sees",
		Long: `Runs COMMAND in user and mount namespaces of its own, with the workspace as its
working directory. It needs neither root nor fusermount3. Without STORE the
store is a temporary one, gone at the end.

With --from DIR, a new store is filled from DIR, and the workspace appears in
DIR's place: COMMAND sees the paths that it is used to, and what it writes there
goes to the store, never to DIR.

Signals are passed on. The exit status is COMMAND's; what COMMAND leaves running
is killed. Inside, all other commands of amberfs work.`,
		Example: `  amberfs run --from . -- make test
  amberfs run --from ~/project /srv/store --snapshot-after done -- ./agent
  amberfs run /srv/store --fork try-1 -- bash`,
		Args: func(cmd *cobra.Command, argv []string) error {
			n := cmd.ArgsLenAtDash()
			if n < 0 || n == len(argv) {
				return fail.New(fail.Usage, "run needs -- and a COMMAND after it").WithHint("such as: amberfs run --from . -- make test")
			}
			return args(0, 1, "at most one STORE before --")(cmd, argv[:n])
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			n := cmd.ArgsLenAtDash()
			c.Command, c.Text = argv[n:], a.command
			o, err := mountopt.Parse(options...)
			if err != nil {
				return fail.New(fail.Usage, "%w", err)
			}
			c.Options = o.String()
			for _, name := range []string{c.Fork, c.After} {
				if name == "" {
					continue
				}
				if err := snapshot.CheckName(name); err != nil {
					return fail.New(fail.Usage, "%w", err)
				}
			}
			if n == 1 {
				if c.Store, err = a.abs(argv[0]); err != nil {
					return err
				}
			}
			if from != "" {
				if from, err = a.abs(from); err != nil {
					return err
				}
			}
			return a.run(cmd, c, from)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "fill a new store from `DIR`, and mount in its place")
	cmd.Flags().StringVar(&c.Fork, "fork", "", "run in the fork `NAME`, made when it is missing")
	cmd.Flags().StringVar(&c.After, "snapshot-after", "", "capture the workspace as `NAME` when COMMAND has ended")
	cmd.Flags().BoolVar(&c.ReadOnly, "read-only", false, "nothing can be changed")
	cmd.Flags().StringArrayVarP(&options, "options", "o", nil, "mount `OPTION`s, with commas between")
	return cmd
}

func (a *app) run(cmd *cobra.Command, c sandbox.Config, from string) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	var lock *os.File
	if c.Store == "" {
		if c.Temp, lock, err = sandbox.Temp(); err != nil {
			return err
		}
		defer os.RemoveAll(c.Temp)
		defer lock.Close()
		c.Store = filepath.Join(c.Temp, "store")
	}
	c.Store = locate.Resolve(mounts, c.Store)
	switch {
	case from != "":
		from = locate.Resolve(mounts, from)
		if from == "/" {
			return fail.New(fail.Usage, "the whole system cannot be a workspace").WithHint("name a directory")
		}
		c.Mountpoint = from
	case c.Temp != "":
		c.Mountpoint = filepath.Join(locate.Resolve(mounts, c.Temp), "workspace")
	default:
		c.Mountpoint = filepath.Join(c.Store, "mnt")
	}
	bar := a.newProgress()
	err = daemon.Make(cmd.Context(), daemon.Config{Store: c.Store, From: from, Version: versionText()}, bar.show)
	bar.done()
	if err != nil {
		return err
	}
	status, err := sandbox.Outer(c, lock)
	if err != nil {
		return err
	}
	if status != 0 {
		return exitCode(status)
	}
	return nil
}

// insideCommand is the second half of run, in the new namespaces.
func insideCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    sandbox.Command,
		Hidden: true,
		Args:   args(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			status, err := sandbox.Inner(func(s string) { a.note("%s", s) })
			if err != nil && status != 0 {
				a.note("%v", err)
				return exitCode(status)
			}
			if err != nil {
				return err
			}
			if status != 0 {
				return exitCode(status)
			}
			return nil
		},
	}
}
