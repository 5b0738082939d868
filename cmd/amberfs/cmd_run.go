package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/sys/mountinfo"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

func runCommand(a *app) *cobra.Command {
	var (
		c       sandbox.Config
		from    string
		x       restrictions
		k       = kept{a: a, restrict: &x}
		options []string
		discard bool
		anew    bool
		resume  bool
		also    []string
	)

	cmd := &cobra.Command{
		Use:   "run [--from DIR|REMOTE@SNAPSHOT] [--also DIR[:ro]]... [--hide PATH]... [--read-only [PATH]]... [--name NAME|--resume [NAME]] [--apply[=yes]|--discard] [--fork NAME [--root]] [--as ACTOR] [STORE] -- COMMAND [ARGUMENT]...",
		Short: "Run a program in a private copy or workspace",
		Long: `Runs COMMAND in a copy of DIR that appears at DIR's path, for COMMAND only. DIR itself
does not change. It needs neither root nor fusermount3.

What COMMAND changes is a run: it is kept, also after a kill or a reboot, until you
apply or remove it ("amberfs help runs").

With --also, another directory is in the run, at its own path. At the end, there is one
question and one apply for all: nothing is changed unless all can be. DIR:ro can only be
read.

--hide and lines of .amberhide in DIR hide files from COMMAND, as .gitignore does. What
COMMAND creates there stays in the run. With --hide=empty, hidden files are empty.

--resume merges what changed in DIR since into the run first ("amberfs help refresh"). A
new run copies only what changed in DIR since the last one, and shares its data.

With STORE, COMMAND runs in the workspace of STORE, and what it changes stays there.
Without STORE and DIR, the workspace is empty and temporary.

With --root, /proc, /dev, /sys and the host's /etc/resolv.conf and /etc/hosts are
mounted in the fork. COMMAND has the user, environment and working directory of the
imported image. Without COMMAND, the image's command or a shell runs. For an ordinary
user, users other than root need newuidmap, /etc/subuid and /etc/subgid.

Inside a mount, --fork needs no STORE, and --as without --fork, --from and STORE runs
COMMAND where you are, in no namespace.

COMMAND can access everything that you can: run is not a sandbox. Set-user-ID programs
give it no more rights (no_new_privs). In bubblewrap, COMMAND sees only the workspace,
as /work, and the system's programs:

  amberfs run --from . -- bwrap --unshare-all --die-with-parent --new-session \
    --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \
    --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp \
    --bind . /work --chdir /work -- COMMAND

The exit status is that of COMMAND. Processes that it leaves running are killed. All
other commands work inside.`,
		Example: `  amberfs run --from . --apply -- claude
  amberfs run --from app --also lib --also ~/docs:ro --apply -- claude
  amberfs run --from . --hide .env --read-only vendor -- claude
  amberfs run --resume -- claude
  amberfs run --from . --discard -- make test
  amberfs run --from ~/project /srv/store --snapshot-after done -- ./agent
  amberfs run /srv/store --fork try-1 -- bash
  amberfs run /srv/store --fork box --root -- apt-get install -y jq`,
		Args: func(cmd *cobra.Command, argv []string) error {
			if !c.Root {
				return beforeDash(0, 1, "at most one STORE")(cmd, argv)
			}
			before, _ := splitDash(cmd, argv)
			return args(0, 1, "at most one STORE before --")(cmd, before)
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			var store []string
			store, c.Command = splitDash(cmd, argv)
			if c.Root && c.Fork == "" {
				return errs.Fail(errs.Invalid, "--root needs --fork NAME: the fork that is the root directory")
			}

			var err error
			if c.Options, err = mountopt.Parse(options...); err != nil {
				return errs.Fail(errs.Invalid, "%w", err)
			}

			readOnly := x.whole()
			c.Options.ReadOnly = c.Options.ReadOnly || readOnly
			for _, n := range []struct {
				name  string
				check func(string) error
			}{{c.Fork, naming.Check}, {c.After, naming.Check}, {k.name, naming.Check}, {c.Actor, actors.Check}} {
				if n.name != "" && err == nil {
					err = n.check(n.name)
				}
			}
			if err != nil {
				return errs.Fail(errs.Invalid, "%w", err)
			}
			if k.apply == applyAsk && slices.Contains(store, applyYes) {
				return errs.Fail(errs.Invalid, "--apply yes means a store named yes").WithHint("use --apply=yes, or name the store ./yes")
			}

			if len(store) > 0 {
				if c.Store, err = a.abs(store[0]); err != nil {
					return err
				}
			}

			from, remote, err := splitFrom(a, from)
			if err != nil {
				return err
			}
			if !slices.Contains([]string{"", applyAsk, applyYes}, k.apply) {
				return errs.Fail(errs.Invalid, "use --apply or --apply=yes, not --apply=%s", k.apply)
			}

			if k.sides.Ours || k.sides.Theirs || k.sides.Merge {
				if !resume {
					return errs.Fail(errs.Invalid, "--ours, --theirs, --prefer and --merge need --resume")
				}
				if _, err := threeway.RuleOf(k.sides.Ours, k.sides.Theirs); err != nil {
					return err
				}
			}
			if len(also) > 0 && (resume || from == "" || c.Store != "") {
				return errs.Fail(errs.Invalid, "--also needs a new run: --from DIR and no STORE or --resume")
			}
			if err := k.addAlso(also); err != nil {
				return err
			}
			if resume && x.hides() {
				return errs.Fail(errs.Invalid, "--hide needs a new run, not --resume")
			}
			if resume {
				return resumeRun(cmd.Context(), a, &k, c, from, store)
			}
			if k.apply != "" && from == "" {
				return errs.Fail(errs.Invalid, "--apply needs --from DIR: there is no directory to apply the changes to")
			}

			if k.dir = from; from != "" && c.Store == "" && !discard && !readOnly {
				if c.Fork != "" {
					return errs.Fail(errs.Invalid, "--fork needs a STORE").WithHint("use --name to name a run")
				}
				return runKept(cmd.Context(), a, &k, c)
			}
			if k.name != "" || anew || discard && k.apply != "" {
				return errs.Fail(errs.Invalid, "--name and --new need --from DIR and no STORE, and --discard applies nothing")
			}

			here := c.Fork != "" || c.Actor != "" && remote == "" && !readOnly
			if p, err := a.location(); err == nil && here && c.Store == "" && from == "" {
				root, _ := p.Root()
				_, err := x.set(&c, root)
				if err := errors.Join(err, x.checkUsed()); err != nil {
					return err
				}
				return runHere(cmd.Context(), a, p, c, remote)
			}

			if c.Root {
				if ran, st, err := sandbox.AsRoot(cmd.Context(), c.Store); ran {
					return a.statusOf(st, err)
				}
				noteOnlyRoot(a, "no other ids can be mapped here (newuidmap, and lines for you in /etc/subuid and /etc/subgid)")
			}

			return runStore(a, cmd, c, &k, from, remote)
		},
	}

	cmd.Flags().StringVar(&from, "from", "", "fill a new store from `DIR`, or begin it with REMOTE@SNAPSHOT")
	cmd.Flags().StringArrayVar(&also, "also", nil, "run in a copy of the directory `DIR[:ro]` too; with :ro it is only read")
	cmd.Flags().StringVar(&c.Fork, "fork", "", "run in the fork `NAME`, created if needed")
	cmd.Flags().BoolVar(&c.Root, "root", false, "the fork is COMMAND's root directory")
	cmd.Flags().StringVar(&c.Actor, "as", "", "the `ACTOR` of what COMMAND and its descendants change")
	cmd.Flags().StringVar(&k.name, "name", "", "`NAME` of the run. Default: DIR's name and a number")
	cmd.Flags().BoolVar(&anew, "new", false, "begin a new run (the default)")
	cmd.Flags().BoolVar(&resume, "resume", false, "go on with the run NAME, or with the newest of DIR")
	cmd.Flags().BoolVar(&resume, "continue", false, "the same as --resume")
	cmd.Flags().BoolVar(&discard, "discard", false, "keep nothing of what COMMAND changes")
	cmd.MarkFlagsMutuallyExclusive("resume", "new", "discard")
	cmd.MarkFlagsMutuallyExclusive("resume", "name")
	cmd.MarkFlagsMutuallyExclusive("discard", "name")
	cmd.Flags().Var((*applyValue)(&k.apply), "apply", "when COMMAND ends, ask which changes to apply to DIR; --apply=yes does not ask")
	cmd.Flags().Lookup("apply").NoOptDefVal = applyAsk
	cmd.Flags().BoolVar(&k.sides.Ours, "ours", false, "with --resume, keep the run's version of conflicting paths")
	cmd.Flags().BoolVar(&k.sides.Theirs, "theirs", false, "with --resume, take DIR's version of conflicting paths")
	cmd.Flags().BoolVar(&k.sides.Merge, "merge", false, "with --resume, merge a checked-out branch of git that moved on both sides")
	addPrefer(cmd, &k.sides.Ours, &k.sides.Theirs, []string{sideRun}, []string{sideDir})
	cmd.Flags().StringVar(&c.After, "snapshot-after", "", "take the snapshot `NAME` when COMMAND ends")
	cmd.Flags().BoolVar(&c.Report, "report", false, "print what COMMAND changed when it ends, as \"amberfs changed\" does")
	cmd.Flags().StringArrayVar(&x.hide, "hide", nil, "`PATH` in DIR, or a pattern, does not exist for COMMAND")
	cmd.Flags().StringArrayVar(&x.readOnly, "read-only", nil, "`PATH` cannot be changed; without PATH, nothing can")
	cmd.Flags().Lookup("read-only").NoOptDefVal = wholeWorkspace
	addOptions(cmd, &options)

	return cmd
}

// runStore runs a program in a workspace of a STORE or, without one, of a temporary store. With from, the workspace is a
// copy of that directory. Of k it uses what the command line says.
func runStore(a *app, cmd *cobra.Command, c sandbox.Config, k *kept, from, remote string) error {
	apply := k.apply
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}

	var temp *sandbox.TempDir
	if c.Store == "" {
		if temp, err = sandbox.Temp(); err != nil {
			return err
		}
		defer temp.Remove()

		c.Temp = temp.Path
		c.Store = filepath.Join(c.Temp, "store")
	}

	c.Store = locate.Resolve(mounts, c.Store)
	switch {
	case from != "":
		from = locate.Resolve(mounts, from)
		if from == "/" {
			return errs.Fail(errs.Invalid, "the whole system cannot be a workspace").WithHint("name a directory")
		}
		c.Mountpoint = from

	case c.Temp != "":
		c.Mountpoint = filepath.Join(locate.Resolve(mounts, c.Temp), "workspace")
		if err := os.Mkdir(c.Mountpoint, 0o700); err != nil {
			return errs.Fail(errs.ScriptKind(err), "cannot create a mount point: %w", err)
		}

	default:
		c.Mountpoint = daemon.RunMountpoint(c.Store)
	}

	cfg := daemon.Config{Store: c.Store, Mountpoint: c.Mountpoint, From: from, Remote: remote, Version: versionText()}
	if c.Temp != "" {
		cfg.Exclude = []string{c.Temp}
	}
	if cfg.Hidden, err = k.restrict.set(&c, from); err == nil && from != "" {
		c.Hide, cfg.Hidden, err = findHidden(cmd.Context(), a, from, c.Hide, cfg.Hidden, cfg.Exclude...)
	}
	if err == nil {
		k.dir = from
		err = k.fillTemporary(cmd.Context(), &c)
	}
	if err != nil {
		return err
	}

	made, s, err := makeStore(cmd.Context(), a, &cfg, mounts)
	if err != nil {
		return err
	}
	if !made && c.Fork == "" && len(c.Hide) > 0 {
		return errs.Fail(errs.Exist, "the store %s exists, and its workspace has what is to be hidden", quote(c.Store)).WithHint("run in a fork of it, with --fork NAME, or leave out STORE")
	}

	noteRepository(a, from)
	if from != "" {
		noteSecrets(a, from, cfg.Hidden)
	}

	p := locate.Location{Mount: &mountinfo.Info{Mountpoint: c.Mountpoint}, Store: c.Store}
	var left bool // some changes were left
	var notApplied error
	var unfinished bool // some were neither applied nor declined
	var before *stateBefore
	status, err := sandbox.Outer(cmd.Context(), c, temp, s,
		func(c *sandbox.Config) error {
			err := errors.Join(prepareProgram(cmd.Context(), a, p, c, ""), k.prepareTemporary(cmd.Context(), c))
			if err == nil {
				before = openStateBefore(cmd.Context(), a, *c)
			}

			return err
		},
		func(e sandbox.Ended) error {
			defer before.close() // the daemon ends with the last connection

			unfinished = e.Started && apply != ""
			if !e.Started || !e.Served { // Outer has reported it
				return nil
			}

			err := afterProgram(cmd.Context(), a, p, c)
			if c.Report {
				err = errors.Join(err, k.reportAlso(cmd.Context()))
			}

			switch {
			case err == nil && apply == applyYes && e.Interrupted:
				a.note("interrupted: nothing is applied")
			case err == nil && apply != "":
				left, notApplied = applyStore(a, c, from, map[string]askMode{applyAsk: askInRun}[apply])
				unfinished = left || notApplied != nil
			case apply == "":
				before.end(cmd.Context())
			}

			return err
		})
	if unfinished {
		noteKept(a, c, from, left)
	}

	if err == nil && status == 0 {
		err = notApplied
	} else if notApplied != nil {
		a.note("%v", notApplied)
	}

	return a.statusOf(status, err)
}

func noteOnlyRoot(a *app, why string) {
	if os.Geteuid() != 0 {
		a.note("only root exists in the fork: %s", why)
	}
}

// statusOf returns the error that ends the command with the status of a program, or err if the status is 0.
func (a *app) statusOf(status int, err error) error {
	if status == 0 {
		return err
	}
	if err != nil {
		a.note("%v", err)
	}

	return exitCode(status)
}

// noteRepository warns about a directory that is only a part of a repository.
func noteRepository(a *app, dir string) {
	if dir == "" {
		return
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		return
	}

	for above := filepath.Dir(dir); above != "/" && above != "."; above = filepath.Dir(above) {
		if _, err := os.Lstat(filepath.Join(above, ".git")); err == nil {
			a.note("%s is a part of the repository %s, and git does not work in it; for that use --from %s", quote(dir), quote(above), word(above))
			return
		}
	}
}
