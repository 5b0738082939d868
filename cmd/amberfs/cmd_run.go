package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

type runOptions struct {
	sandbox       sandbox.Config
	task          task
	restrictions  restrictions
	mountOptions  []string // the options of the mount
	source        string
	otherDirs     []string
	name          string
	applyMode     string          // "", applyFlagAsk or applyFlagYes
	conflictSides service.Refresh // with resume: which side's version is used in conflicts

	resume, newRun, discard bool
}

func runCommand(a *app) *cobra.Command {
	o := &runOptions{}
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

--hide and .amberhide in DIR, with the syntax of .gitignore, hide files from COMMAND. What
COMMAND creates there stays in the run. --hide=empty hides no path: it shows hidden files
as empty.

--resume merges what changed in DIR since into the run first ("amberfs help refresh"). A
new run copies only what changed in DIR since the last one, and shares its data.

With STORE, COMMAND runs in the workspace of STORE, and what it changes stays there.
Without STORE and DIR, the workspace is empty and temporary.

With --root, /proc, /dev, /sys and the host's /etc/resolv.conf and /etc/hosts are
mounted in the fork. COMMAND has the user, environment and working directory of the
imported image. Without COMMAND, the image's command or a shell runs. If you
are not root, other users in it need newuidmap, /etc/subuid and /etc/subgid.

Inside a mount, --fork needs no STORE, and --as alone runs COMMAND in the working
directory, without a namespace.

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
			if !o.sandbox.ForkIsRoot {
				return beforeDashCheck(0, 1, "at most one STORE")(cmd, argv)
			}
			before, _ := splitDash(cmd, argv)
			return argumentCountCheck(0, 1, "at most one STORE before --")(cmd, before)
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			var store []string
			store, o.sandbox.Command = splitDash(cmd, argv)
			return runProgram(cmd.Context(), a, o, store)
		},
	}

	cmd.Flags().StringVar(&o.source, "from", "", "fill a new store from `DIR`, or begin it with REMOTE@SNAPSHOT")
	cmd.Flags().StringArrayVar(&o.otherDirs, "also", nil, "run in a copy of the directory `DIR[:ro]` too; with :ro it is only read")
	cmd.Flags().StringVar(&o.sandbox.Fork, "fork", "", "run in the fork `NAME`, created if needed")
	cmd.Flags().BoolVar(&o.sandbox.ForkIsRoot, "root", false, "the fork is COMMAND's root directory")
	cmd.Flags().StringVar(&o.task.actor, "as", "", "the `ACTOR` of what COMMAND and its descendants change")
	cmd.Flags().StringVar(&o.name, "name", "", "`NAME` of the run. Default: DIR's name and a number")
	cmd.Flags().BoolVar(&o.newRun, "new", false, "begin a new run (the default)")
	cmd.Flags().BoolVar(&o.resume, "resume", false, "go on with the run NAME, or with the newest of DIR")
	cmd.Flags().BoolVar(&o.resume, "continue", false, "the same as --resume")
	cmd.Flags().BoolVar(&o.discard, "discard", false, "keep nothing of what COMMAND changes")
	cmd.MarkFlagsMutuallyExclusive("resume", "new", "discard")
	cmd.MarkFlagsMutuallyExclusive("resume", "name")
	cmd.MarkFlagsMutuallyExclusive("discard", "name")
	cmd.Flags().Var((*applyFlag)(&o.applyMode), "apply", "when COMMAND ends, ask which changes to apply to DIR; --apply=yes does not ask")
	cmd.Flags().Lookup("apply").NoOptDefVal = applyFlagAsk
	cmd.Flags().BoolVar(&o.conflictSides.Ours, "ours", false, "with --resume, keep the run's version of conflicting paths")
	cmd.Flags().BoolVar(&o.conflictSides.Theirs, "theirs", false, "with --resume, take DIR's version of conflicting paths")
	cmd.Flags().BoolVar(&o.conflictSides.Merge, "merge", false, "with --resume, merge a checked-out branch of git that moved on both sides")
	addPreferFlag(cmd, &o.conflictSides.Ours, &o.conflictSides.Theirs, []string{sideRun}, []string{sideDir})
	cmd.Flags().StringVar(&o.task.snapshotAfter, "snapshot-after", "", "take the snapshot `NAME` when COMMAND ends")
	cmd.Flags().BoolVar(&o.task.printsChanges, "report", false, "print what COMMAND changed when it ends, as \"amberfs changed\" does")
	cmd.Flags().StringArrayVar(&o.restrictions.hideArgs, "hide", nil, "`PATH` in DIR, or a pattern, does not exist for COMMAND")
	cmd.Flags().StringArrayVar(&o.restrictions.readOnlyValues, "read-only", nil, "`PATH` cannot be changed; without PATH, nothing can")
	cmd.Flags().Lookup("read-only").NoOptDefVal = wholeWorkspace
	addMountOptionsFlag(cmd, &o.mountOptions)

	return cmd
}

// validate checks the options that do not depend on the directory, and parses the mount options.
func (o *runOptions) validate(store []string) error {
	c := &o.sandbox
	if c.ForkIsRoot && c.Fork == "" {
		return errs.Fail(errs.Invalid, "--root needs --fork NAME: the fork that is the root directory")
	}

	var err error
	if c.Options, err = mountopt.Parse(o.mountOptions...); err != nil {
		return errs.Fail(errs.Invalid, "%w", err)
	}

	c.Options.ReadOnly = c.Options.ReadOnly || o.restrictions.makesWorkspaceReadOnly()
	for _, n := range []struct {
		name  string
		check func(string) error
	}{{c.Fork, naming.Check}, {o.task.snapshotAfter, naming.Check}, {o.name, naming.Check}, {o.task.actor, actors.Check}} {
		if n.name == "" {
			continue
		}
		if err := n.check(n.name); err != nil {
			return errs.Fail(errs.Invalid, "%w", err)
		}
	}

	switch {
	case o.applyMode == applyFlagAsk && slices.Contains(store, applyFlagYes):
		return errs.Fail(errs.Invalid, "--apply yes means a store named yes").WithHint("use --apply=yes, or name the store ./yes")
	case !slices.Contains([]string{"", applyFlagAsk, applyFlagYes}, o.applyMode):
		return errs.Fail(errs.Invalid, "use --apply or --apply=yes, not --apply=%s", o.applyMode)
	case (o.conflictSides.Ours || o.conflictSides.Theirs || o.conflictSides.Merge) && !o.resume:
		return errs.Fail(errs.Invalid, "--ours, --theirs, --prefer and --merge need --resume")
	case o.resume && o.restrictions.hasHidden():
		return errs.Fail(errs.Invalid, "--hide needs a new run, not --resume")
	}

	_, err = threeway.RuleOf(o.conflictSides.Ours, o.conflictSides.Theirs)
	return err
}

// runProgram runs a program in a run of a directory, in the workspace of a store, or in the workspace of the working
// directory.
func runProgram(ctx context.Context, a *app, o *runOptions, store []string) error {
	if err := o.validate(store); err != nil {
		return err
	}

	c := &o.sandbox
	from, remote, err := splitFrom(a, o.source)
	if err == nil && len(store) > 0 {
		c.Store, err = a.absPath(store[0])
	}
	if err != nil {
		return err
	}
	if len(o.otherDirs) > 0 && (o.resume || from == "" || c.Store != "") {
		return errs.Fail(errs.Invalid, "--also needs a new run: --from DIR and no STORE or --resume")
	}

	k := &keptRun{a: a, dir: from, name: o.name, resume: o.resume, applyMode: o.applyMode, conflictSides: o.conflictSides, task: o.task, restrictions: &o.restrictions}
	if err := k.addOtherDirs(o.otherDirs); err != nil {
		return err
	}
	if o.resume {
		return k.resumeRun(ctx, *c, store)
	}
	if k.applyMode != "" && from == "" {
		return errs.Fail(errs.Invalid, "--apply needs --from DIR: there is no directory to apply the changes to")
	}

	readOnly := o.restrictions.makesWorkspaceReadOnly()
	if from != "" && c.Store == "" && !o.discard && !readOnly {
		if c.Fork != "" {
			return errs.Fail(errs.Invalid, "--fork needs a STORE").WithHint("use --name to name a run")
		}
		return k.run(ctx, *c)
	}
	if k.name != "" || o.newRun || o.discard && k.applyMode != "" {
		return errs.Fail(errs.Invalid, "--name and --new need --from DIR and no STORE, and --discard applies nothing")
	}

	mayRunHere := c.Fork != "" || o.task.actor != "" && remote == "" && !readOnly
	if p, err := a.location(); err == nil && mayRunHere && c.Store == "" && from == "" {
		return runInWorkspace(ctx, a, p, o, remote)
	}

	if c.ForkIsRoot {
		if ran, st, err := sandbox.RunAsRoot(ctx, c.Store); ran {
			return a.statusError(st, err)
		}
		noteOnlyRoot(a, "no other ids can be mapped here (newuidmap, and lines for you in /etc/subuid and /etc/subgid)")
	}

	return k.runStore(ctx, *c, remote)
}

// runStore runs a program in a workspace of a STORE or, without one, of a temporary store. If k.dir is set, the
// workspace of a new store is a copy of this directory.
func (k *keptRun) runStore(ctx context.Context, c sandbox.Config, remote string) error {
	var temp *sandbox.TempDir
	var err error
	if c.Store == "" {
		if temp, err = sandbox.MakeTempDir(); err != nil {
			return err
		}
		defer temp.Remove()

		c.TempDir = temp.Path
		c.Store = filepath.Join(c.TempDir, "store")
	}

	s, err := k.prepareStoreRun(ctx, &c, remote)
	if err != nil {
		return err
	}

	p := storeLocation(c.Store, c.Mountpoint)
	var incomplete bool     // the user did not apply some changes
	var applyErr error      // the error of the apply
	var hasKeptChanges bool // some changes were neither applied nor declined
	var earlier *earlierState
	status, err := sandbox.RunOuter(ctx, c, temp, s,
		func(c *sandbox.Config) error {
			err := errors.Join(k.task.prepare(ctx, k.a, p, k.forkOptions), k.prepareOtherDirs(ctx))
			if err == nil && c.ForkIsRoot {
				c.Image, err = imageOf(ctx, k.a, p.InFork(c.Fork))
			}
			if err == nil {
				earlier = openEarlierState(ctx, k.a, *c)
			}

			return err
		},
		func(e sandbox.Outcome) error {
			defer earlier.close() // the daemon can end when the last connection is closed

			hasKeptChanges = e.Started && k.applyMode != ""
			if !e.Started || !e.StillServed { // RunOuter has reported the reason
				return nil
			}

			err := errors.Join(k.task.finish(ctx, k.a, p.InFork(c.Fork)), k.reportOtherDirs(ctx))
			switch {
			case err == nil && k.applyMode == applyFlagYes && e.Interrupted:
				k.a.note("interrupted: nothing is applied")
			case err == nil && k.applyMode != "":
				incomplete, applyErr = applyStoreRun(k.a, c, k.dir, map[string]askMode{applyFlagAsk: askAfterStoreRun}[k.applyMode])
				hasKeptChanges = incomplete || applyErr != nil
			case k.applyMode == "":
				earlier.printChanges(ctx)
			}

			return err
		})
	if hasKeptChanges {
		noteKeptChanges(k.a, c, k.dir, incomplete)
	}

	return k.a.runStatusError(status, err, applyErr)
}

// prepareStoreRun sets the mount point of a run in a STORE. It makes and fills those stores of the run that do not
// exist yet, and returns the MessageFunc that prints the messages of their daemons.
func (k *keptRun) prepareStoreRun(ctx context.Context, c *sandbox.Config, remote string) (daemon.MessageFunc, error) {
	mounts, err := locate.Mounts()
	if err != nil {
		return nil, err
	}

	c.Store = locate.Resolve(mounts, c.Store)
	switch {
	case k.dir != "":
		if k.dir, err = resolveWorkspaceDir(mounts, k.dir); err != nil {
			return nil, err
		}
		c.Mountpoint = k.dir

	case c.TempDir != "":
		c.Mountpoint = filepath.Join(locate.Resolve(mounts, c.TempDir), "workspace")
		if err := os.Mkdir(c.Mountpoint, 0o700); err != nil {
			return nil, errs.Fail(errs.ScriptKind(err), "cannot create a mount point: %w", err)
		}

	default:
		c.Mountpoint = daemon.RunMountpoint(c.Store)
	}

	cfg := daemon.Config{Store: c.Store, Mountpoint: c.Mountpoint, From: k.dir, Remote: remote, Version: versionText()}
	if c.TempDir != "" {
		cfg.Exclude = []string{c.TempDir}
	}
	if k.forkOptions, k.hidden, err = k.restrictions.forDir(k.dir); err == nil && k.dir != "" {
		k.forkOptions.Hide, k.hidden, err = findAndNoteHidden(ctx, k.a, k.dir, k.forkOptions.Hide, k.hidden, cfg.Exclude...)
	}
	if err != nil {
		return nil, err
	}
	if err := k.makeTemporaryStores(ctx, c); err != nil {
		return nil, err
	}

	k.forkOptions.Name, cfg.Hidden = c.Fork, k.hidden
	made, s, err := makeStore(ctx, k.a, &cfg, mounts)
	if err != nil {
		return nil, err
	}
	if !made && c.Fork == "" && len(k.forkOptions.Hide) > 0 {
		return nil, errs.Fail(errs.Exist, "the store %s exists, and its workspace has what is to be hidden", quote(c.Store)).WithHint("run in a fork of it, with --fork NAME, or leave out STORE")
	}

	noteSubdirectory(k.a, k.dir)
	if k.dir != "" {
		noteSecrets(k.a, k.dir, k.hidden)
	}

	return s, nil
}

// resolveWorkspaceDir resolves the symbolic links in the path of a directory that becomes a workspace.
func resolveWorkspaceDir(mounts []locate.Mount, dir string) (string, error) {
	if dir = locate.Resolve(mounts, dir); dir == "/" {
		return "", errs.Fail(errs.Invalid, "the whole system cannot be a workspace").WithHint("name a directory")
	}
	return dir, nil
}

func noteOnlyRoot(a *app, reason string) {
	if os.Geteuid() != 0 {
		a.note("only root exists in the fork: %s", reason)
	}
}

// runStatusError is statusError for a run that applied its changes at the end. applyErr is the error of the apply. If
// the program or the run has failed, runStatusError only prints applyErr.
func (a *app) runStatusError(status int, err, applyErr error) error {
	if err == nil && status == 0 {
		err = applyErr
	} else if applyErr != nil {
		a.note("%v", applyErr)
	}
	return a.statusError(status, err)
}

// statusError prints err and returns an error with the exit status of a program. If the status is 0, it only returns
// err.
func (a *app) statusError(status int, err error) error {
	if status == 0 {
		return err
	}
	if err != nil {
		a.note("%v", err)
	}

	return exitCode(status)
}

// noteSubdirectory warns about a directory that is only a part of a repository.
func noteSubdirectory(a *app, dir string) {
	if dir == "" {
		return
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		return
	}

	for above := filepath.Dir(dir); above != "/" && above != "."; above = filepath.Dir(above) {
		if _, err := os.Lstat(filepath.Join(above, ".git")); err == nil {
			a.note("%s is a part of the repository %s, and git does not work in it; for that use --from %s", quote(dir), quote(above), shellWord(above))
			return
		}
	}
}
