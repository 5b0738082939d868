package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/naming"
)

func runCommand(a *app) *cobra.Command {
	var (
		c       sandbox.Config
		from    string
		apply   string
		options []string
	)
	cmd := &cobra.Command{
		Use:   "run [--from DIR|REMOTE@SNAPSHOT] [--fork NAME [--root]] [--as ACTOR] [--apply[=yes]] [STORE] -- COMMAND [ARGUMENT]...",
		Short: "Run a program in a private copy or workspace",
		Long: `Runs COMMAND in a private mount namespace, with the workspace as its working
directory. It needs neither root nor fusermount3. Without STORE, a temporary store
is used and removed at the end. Several run on one STORE share its mount, which ends
with the last of them, or with amberfs umount if amberfs mount made it.

With --from DIR, the workspace appears at DIR's path, for COMMAND only. DIR itself
does not change.

With --apply, if some changes are not applied, or there is no terminal, the store is
kept, and amberfs prints how to apply it later and how to remove it.

With --root, the fork is the root directory, with /proc, /dev, /sys and the host's
/etc/resolv.conf and /etc/hosts mounted in it. COMMAND is the user, and has the
environment and working directory, of the image that was imported. Without COMMAND, the
image's command or a shell runs. For an ordinary user, other users than root exist if
newuidmap, /etc/subuid and /etc/subgid map them.

Inside a mount, --fork needs no STORE, and a new fork begins with REMOTE@SNAPSHOT if
--from names one. There --as without --fork, --from and STORE runs COMMAND where you
are, in no namespace.

COMMAND can access everything that you can: run is not a sandbox. Set-user-ID
programs give it no more rights (no_new_privs). In bubblewrap, COMMAND sees only the
workspace, as /work, and the system's programs:

  amberfs run --from . -- bwrap --unshare-all --die-with-parent --new-session \
    --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \
    --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp \
    --bind . /work --chdir /work -- COMMAND

Signals are passed on. The exit status is that of COMMAND. Processes that it leaves
running are killed. All other commands work inside.`,
		Example: `  amberfs run --from . --apply -- claude
  amberfs run --from . -- make test
  amberfs run --from ~/project /srv/store --snapshot-after done -- ./agent
  amberfs run /srv/store --fork try-1 -- bash
  amberfs run /srv/store --fork box --root -- apt-get install -y jq`,
		Args: func(cmd *cobra.Command, argv []string) error {
			n := cmd.ArgsLenAtDash()
			if n < 0 && c.Root {
				n = len(argv)
			}
			if n < 0 || n == len(argv) && !c.Root {
				return fail.New(fail.Usage, "run needs -- and a COMMAND after it").WithHint("such as: amberfs run --from . -- make test")
			}
			return args(0, 1, "at most one STORE before --")(cmd, argv[:n])
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			n := cmd.ArgsLenAtDash()
			if n < 0 {
				n = len(argv)
			}
			c.Command, c.Text = argv[n:], a.command
			if c.Root && c.Fork == "" {
				return fail.New(fail.Usage, "--root needs --fork NAME: the fork that is the root directory")
			}
			o, err := mountopt.Parse(options...)
			if err != nil {
				return fail.New(fail.Usage, "%w", err)
			}
			c.Options = o.String()
			for _, name := range []string{c.Fork, c.After} {
				if name == "" {
					continue
				}
				if err := naming.Check(name); err != nil {
					return fail.New(fail.Usage, "%w", err)
				}
			}
			if c.Actor != "" {
				if err := actors.Check(c.Actor); err != nil {
					return fail.New(fail.Usage, "%w", err)
				}
			}
			if n == 1 {
				if c.Store, err = a.abs(argv[0]); err != nil {
					return err
				}
			}
			from, remote, err := splitFrom(from)
			if err != nil {
				return err
			}
			if from != "" {
				if from, err = a.abs(from); err != nil {
					return err
				}
			}
			if !slices.Contains([]string{"", applyAsk, applyYes}, apply) {
				return fail.New(fail.Usage, "use --apply or --apply=yes, not --apply=%s", apply)
			}
			if apply != "" && from == "" {
				return fail.New(fail.Usage, "--apply needs --from DIR: there is no directory to apply the changes to")
			}
			here := c.Fork != "" || c.Actor != "" && remote == "" && !c.ReadOnly
			if p, err := a.place(); err == nil && here && c.Store == "" && from == "" {
				return a.runHere(cmd.Context(), p, c, remote)
			}
			if c.Root {
				if ran, st, err := sandbox.AsRoot(cmd.Context(), c.Store); ran {
					return a.statusOf(st, err)
				}
				a.noteOnlyRoot("no other ids can be mapped here (newuidmap, and lines for you in /etc/subuid and /etc/subgid)")
			}
			return a.run(cmd, c, from, remote, apply)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "fill a new store from `DIR`, or begin it with REMOTE@SNAPSHOT")
	cmd.Flags().StringVar(&c.Fork, "fork", "", "run in the fork `NAME`, created if needed")
	cmd.Flags().BoolVar(&c.Root, "root", false, "the fork is the root directory, as in a container")
	cmd.Flags().StringVar(&c.Actor, "as", "", "the `ACTOR` of what COMMAND and its descendants change")
	cmd.Flags().StringVar(&apply, "apply", "", "when COMMAND ends, ask which changes to apply to DIR; --apply=`yes` does not ask")
	cmd.Flags().Lookup("apply").NoOptDefVal = applyAsk
	cmd.Flags().StringVar(&c.After, "snapshot-after", "", "take the snapshot `NAME` when COMMAND ends")
	cmd.Flags().BoolVar(&c.ReadOnly, "read-only", false, "nothing can be changed")
	addOptions(cmd, &options)
	return cmd
}

func (a *app) run(cmd *cobra.Command, c sandbox.Config, from, remote, apply string) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	var temp *sandbox.TempDir
	back := &carryBack{a: a, how: apply}
	if c.Store == "" {
		if temp, err = sandbox.Temp(apply != ""); err != nil {
			return err
		}
		defer func() {
			if back.unfinished {
				temp.Close()
			} else {
				temp.Remove()
			}
		}()
		c.Temp = temp.Path
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
		c.Mountpoint = daemon.RunMountpoint(c.Store)
	}
	cfg := daemon.Config{Store: c.Store, Mountpoint: c.Mountpoint, From: from, Remote: remote, Version: versionText()}
	if err := daemon.CheckPaths(&cfg); err != nil {
		return err
	}
	if c.Temp != "" && remote == "" && apply == "" {
		// The store is temporary: files that change before they are copied may be lost.
		c.From = from
	} else {
		bar := a.newProgress()
		bar.expect(from)
		err = daemon.Make(cmd.Context(), cfg, a.starter(bar))
		bar.done()
		if err != nil {
			return err
		}
	}
	c.Hold, back.dir = apply != "", from
	a.noteRepository(from)
	status, err := sandbox.Outer(cmd.Context(), c, temp, func(s string) { a.note("%s", s) }, func() { back.unfinished = true }, func() { back.run(c) })
	if back.unfinished {
		back.noteKept(c)
	}
	if err == nil && status == 0 {
		err = back.err
	} else if back.err != nil {
		a.note("%v", back.err)
	}
	if err != nil {
		return err
	}
	return a.statusOf(status, nil)
}

// insideCommand is the second half of run, in the new namespaces.
func insideCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    sandbox.Command,
		Hidden: true,
		Args:   args(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			return a.statusOf(sandbox.Inner(func(s string) { a.note("%s", s) }, func() (func(service.Progress), func()) {
				bar := a.newProgress()
				return bar.show, bar.done
			}))
		},
	}
}

// inRootCommand is the first process in a fork that is the root directory.
func inRootCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: sandbox.InRootCommand, Hidden: true, Args: args(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			return a.statusOf(sandbox.InsideRoot(func(s string) { a.note("%s", s) }))
		},
	}
}

func (a *app) noteOnlyRoot(why string) {
	if os.Geteuid() != 0 {
		a.note("only root exists in the fork: %s", why)
	}
}

// statusOf ends the command as a program ended, or with the error that kept it from that.
func (a *app) statusOf(status int, err error) error {
	if status == 0 {
		return err
	}
	if err != nil {
		a.note("%v", err)
	}
	return exitCode(status)
}

// runHere runs a program in the workspace that the command stands in, or in a fork of it.
func (a *app) runHere(ctx context.Context, p locate.Place, c sandbox.Config, from string) error {
	dir, err := a.cwd()
	if c.Fork != "" {
		dir, err = a.forkHere(ctx, p, c.Fork, from)
	}
	if err != nil {
		return err
	}
	if c.Actor != "" {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("adopting what COMMAND leaves behind: %w", err)
		}
		if err := a.ask(ctx, p, service.Actor{Name: c.Actor}, nil); err != nil {
			return err
		}
	}
	run := func() (int, error) { return runIn(dir, c.Command) }
	if c.Root {
		a.noteOnlyRoot("an ordinary user has mounted it. With STORE, while that is not mounted, run --root maps other ids too")
		run = func() (int, error) { return a.runInRoot(ctx, dir, c.Command) }
	}
	status, err := run()
	if err == nil && c.After != "" {
		// A signal that ended the program does not cancel what comes after it.
		err = a.snapshotAfter(context.WithoutCancel(ctx), dir, c.After)
	}
	return a.statusOf(status, err)
}

// forkHere makes a fork, unless there is one, and returns where it is.
func (a *app) forkHere(ctx context.Context, p locate.Place, name, from string) (string, error) {
	root, ok := p.Root()
	if !ok {
		return "", fail.New(fail.Usage, "the root of the workspace is not mounted here")
	}
	err := a.ask(ctx, p, service.Fork{Name: name, Snapshot: from}, nil)
	if err != nil && fail.KindOf(err) != fail.Exists {
		return "", err
	}
	return filepath.Join(root, naming.ForksDir, name), nil
}

// runIn runs a program in a directory and returns its exit status as a shell does.
func runIn(dir string, argv []string) (int, error) {
	runtime.LockOSThread() // for good: it starts nothing with rights any more
	if err := sandbox.NoNewPrivileges(); err != nil {
		return 0, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PWD="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return sandbox.Foreground(cmd)
}

// runInRoot runs a program with a directory, a fork, as its root directory.
func (a *app) runInRoot(ctx context.Context, dir string, argv []string) (int, error) {
	p, err := a.placeOf(dir)
	if err != nil {
		return 0, err
	}
	var found service.FoundImage
	if err := a.ask(ctx, p, service.GetImage{}, &found); err != nil {
		return 0, err
	}
	runtime.LockOSThread() // it ends with this thread
	cmd, err := sandbox.InRoot(dir, argv, found.Image)
	if err != nil {
		return 0, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return sandbox.Foreground(cmd)
}

func (a *app) snapshotAfter(ctx context.Context, dir, name string) error {
	p, err := a.placeOf(dir)
	if err != nil {
		return err
	}
	return a.ask(ctx, p, service.Snapshot{Name: name, Wait: true}, nil)
}
