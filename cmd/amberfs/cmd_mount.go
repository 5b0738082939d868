package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/fusefs/takeover/keeper"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/known"
)

// A mountFunc does the work of a command with the arguments of mount.
type mountFunc func(ctx context.Context, a *app, cfg daemon.Config, foreground bool) error

type mountOptions struct {
	daemon.Config
	from                string
	foreground, atLogin bool
	options             []string
}

// mountLikeCommand returns a command with the arguments of mount. The command calls the function do.
func mountLikeCommand(a *app, do mountFunc) *cobra.Command {
	o := &mountOptions{}
	cmd := &cobra.Command{
		Use:   "mount [--from DIR|REMOTE@SNAPSHOT] [-f] [-o OPTION,...] STORE MOUNTPOINT",
		Short: "Mount a workspace",
		Long: `Mounts STORE at MOUNTPOINT, and returns when it is ready. STORE is created if needed.

With --from DIR, it lists absolute paths in the copy that point into DIR.

With --from REMOTE@SNAPSHOT ("amberfs help remote"), contents are fetched when they
are read. An existing store is mounted as it is, so the same command works after a
reboot.

Options, after -o and separated by commas:
` + mountopt.Help() + `mount(8) asks for dev and suid unless nodev and nosuid are given.

An ordinary user needs fusermount3 from the package fuse3.`,
		Example: `  amberfs mount --from ~/project ~/project.store ~/work
  amberfs mount --from s3://bucket/team@v1 ~/v1.store ~/work
  amberfs mount -o allow_other /srv/store /srv/work`,
		Args: argumentCountCheck(2, 2, "a STORE and a MOUNTPOINT"),
		RunE: func(cmd *cobra.Command, argv []string) error { return runMount(cmd.Context(), a, *o, argv, do) },
	}

	cmd.Flags().StringVar(&o.from, "from", "", "fill a new store from `DIR`, or begin it with REMOTE@SNAPSHOT")
	cmd.Flags().BoolVar(&o.Shared, "shared", false, "end with the last `amberfs run` that uses the mount")
	cmd.Flags().UintSliceVar(&o.Groups, "group", nil, "a supplementary `ID` of the user, who alone exists in the user namespace")
	_, _ = cmd.Flags().MarkHidden("shared"), cmd.Flags().MarkHidden("group") // MarkHidden fails only for a flag that does not exist
	cmd.Flags().BoolVar(&o.Relink, "relink", false, "with --from DIR, make absolute symbolic links into DIR relative in the copy")
	cmd.Flags().BoolVar(&o.OrEmpty, "or-empty", false, "begin empty if REMOTE has no such snapshot")
	cmd.Flags().BoolVarP(&o.foreground, "foreground", "f", false, "stay in the foreground")
	cmd.Flags().BoolVar(&o.atLogin, "at-login", false, "mount it again at each login: write and enable a unit of your systemd")
	addMountOptionsFlag(cmd, &o.options)

	return cmd
}

// runMount calls the function do with the store and the mount point that the words name.
func runMount(ctx context.Context, a *app, o mountOptions, words []string, do mountFunc) error {
	if slices.Contains(words, "") {
		return errs.Fail(errs.Invalid, "a STORE or MOUNTPOINT is empty")
	}
	cfg := o.Config
	options, err := mountopt.Parse(o.options...)
	if err != nil {
		return errs.Fail(errs.Invalid, "%w", err)
	}

	if options.Remount {
		point, err := a.absPath(words[1])
		if err != nil {
			return err
		}
		return daemon.Remount(point, options)
	}

	cfg.Options, cfg.Version = options, versionText()
	if cfg.From, cfg.Remote, err = splitFrom(a, o.from); err != nil {
		return err
	}
	if cfg.Store, err = a.absPath(words[0]); err != nil {
		return err
	}
	if cfg.Mountpoint, err = a.absPath(words[1]); err != nil {
		return err
	}
	if o.atLogin && o.foreground {
		return errs.Fail(errs.Invalid, "--at-login and --foreground cannot be used together")
	}

	err = do(ctx, a, cfg, o.foreground)
	if err == nil && cfg.From == cfg.Mountpoint && !o.foreground {
		a.note("the mount hides %s, which does not change: your changes are in the store\n\tmount it again with: amberfs mount -o nonempty %s %s", quote(cfg.From), shellWord(cfg.Store), shellWord(cfg.Mountpoint))
	}
	if err != nil || !o.atLogin {
		return err
	}

	name, err := writeLoginUnit(cfg)
	if err != nil {
		return errs.Fail(errs.ScriptKind(err), "it is mounted, but not at the next login: %w", err)
	}

	a.note("mounted again at each login: systemctl --user disable %s ends that", name)

	return nil
}

// splitFrom parses the value of --from: the path of a directory, which it makes absolute, or a snapshot on a remote.
func splitFrom(a *app, from string) (dir, remote string, err error) {
	_, name, ok := known.SplitSnapshotURL(from)
	switch {
	case from == "":
		return "", "", nil
	case !ok:
		dir, err = a.absPath(from)
		return dir, "", err
	case name == "":
		return "", "", errs.Fail(errs.Invalid, "%s names no snapshot", from).WithHint("add one: %s@NAME", from)
	}

	return "", from, nil
}

// startMount is called in three processes with the same arguments: the command, which starts the keeper; the keeper,
// which starts the daemon; and the daemon.
func startMount(ctx context.Context, a *app, cfg daemon.Config, foreground bool) (err error) {
	pipe := daemon.ReadyPipe()

	if foreground {
		if cfg.Keeper, err = keeper.InheritedLink(); err != nil {
			return err
		}

		if cfg.Keeper == nil {
			c := keeper.Config{Args: cfg.Args(), Log: daemon.LogLine, Patience: cfg.Patience()}
			c.ReadyPipe, c.ReadyEnv = pipe, daemon.ReadyEnv
			status, err := keeper.Run(c)
			if !errors.Is(err, keeper.ErrNoChild) { // after ErrNoChild (under an emulator), this process becomes the daemon
				return a.statusError(status, err)
			}
		}
	}

	report := daemon.PipeMessageFunc(pipe)
	started := report != nil // daemon.Spawn has started this process
	if !started {
		bar := a.newProgress()
		bar.expectFilesOf(cfg.From)
		report = messagePrinter(a, bar, func(r *daemon.Ready) {
			if a.json {
				_ = a.printJSON(r)
			} else if isTerminal(a.stdout) {
				a.printf("mounted %s at %s\n", quote(r.Store), quote(r.Mountpoint))
			}
		})
	}

	if !foreground {
		ready, proc, err := daemon.Spawn(ctx, cfg, report, &syscall.SysProcAttr{Setsid: true})
		if err != nil {
			report(daemon.Message{Error: errs.ErrorOf(err)})
			return err
		}

		report(daemon.Message{Ready: &ready})
		return proc.Process.Release()
	}

	if cfg.Keeper != nil && cfg.Keeper.Connection != nil { // this daemon takes over a mount
		if pipe == nil { // the command has got its answer from an earlier daemon
			report = func(daemon.Message) {}
		}
		started = cfg.Keeper.Background
	} else if !cfg.Shared && cfg.From != cfg.Mountpoint && os.Mkdir(cfg.Mountpoint, 0o755) == nil {
		defer func() {
			if err != nil {
				_ = unix.Rmdir(cfg.Mountpoint)
			}
		}()
	}

	if !started {
		cfg.LogTo = os.Stderr
	}

	return daemon.Run(ctx, cfg, report)
}

// messagePrinter returns a function that prints the messages of a starting daemon. It does not print the daemon's
// error, which the caller receives and prints.
func messagePrinter(a *app, bar *progress, ready func(*daemon.Ready)) daemon.MessageFunc {
	return func(m daemon.Message) {
		switch {
		case m.Progress != nil:
			bar.show(*m.Progress)
		case m.Note != "":
			a.noteText(m.Note)
		default:
			bar.done()
			if m.Ready != nil {
				ready(m.Ready)
			}
		}
	}
}

// makeStore makes the store of a run if it does not exist, and reports whether it did. It returns the MessageFunc that
// prints the messages of the run's daemon.
func makeStore(ctx context.Context, a *app, cfg *daemon.Config, mounts []locate.Mount) (made bool, printMessage daemon.MessageFunc, err error) {
	if err := daemon.CheckPaths(cfg, mounts); err != nil {
		return false, nil, err
	}

	bar := a.newProgress()
	defer bar.done()

	bar.expectFilesOf(cfg.From)
	printMessage = messagePrinter(a, bar, func(*daemon.Ready) {})
	made, err = daemon.MakeStore(ctx, *cfg, printMessage)
	return made, printMessage, err
}

// addMountOptionsFlag gives cmd the flag -o, with completion of the last word of its list.
func addMountOptionsFlag(cmd *cobra.Command, options *[]string) {
	cmd.Flags().StringArrayVarP(options, "options", "o", nil, "mount `OPTION`s, separated by commas")
	_ = cmd.RegisterFlagCompletionFunc("options", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		done := typed[:strings.LastIndex(typed, ",")+1]
		var out []string
		for _, word := range mountopt.Words() {
			name, _, hasValue := strings.Cut(word, "=")
			if hasValue {
				name += "="
			}

			out = append(out, done+name)
		}

		return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}) // fails only if there is no such flag
}
