package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
)

func mountCommand(a *app) *cobra.Command {
	var (
		from       string
		foreground bool
		options    []string
	)
	cmd := &cobra.Command{
		Use:   "mount [--from DIR] [-f] [-o OPTION,...] STORE MOUNTPOINT",
		Short: "Mount a store's workspace",
		Long: `Mounts the workspace of STORE on the directory MOUNTPOINT and returns when it is
ready. A store that does not exist is made, and filled from DIR if one is given.

Options, after -o and with commas between:
  allow_other               other users may use the mount
  ro                        nothing can be changed
  snapdir=visible|hidden    whether .snapshots and .forks are listed
  acl                       POSIX access control lists
  dev, suid                 device nodes and set-user-ID bits work
  metrics=HOST:PORT         figures for Prometheus over HTTP
  debug                     every request in the log, STORE/amberfs.log
  remount                   ro, rw, exec, noexec … for what is mounted (root)
The generic options of mount(8) are understood, so that a line in /etc/fstab of
type fuse.amberfs works; mount(8) itself asks for dev and suid there, unless it is
told nodev and nosuid.

Root mounts directly; an ordinary user needs fusermount3 of the package fuse3.`,
		Example: `  amberfs mount --from ~/project ~/project.store ~/work
  amberfs mount -o allow_other /srv/store /srv/work`,
		Args: args(2, 2, "a STORE and a MOUNTPOINT"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			o, err := mountopt.Parse(options...)
			if err != nil {
				return fail.New(fail.Usage, "%w", err)
			}
			if o.Remount {
				point, err := a.abs(argv[1])
				if err != nil {
					return err
				}
				return daemon.Remount(point, o)
			}
			cfg := daemon.Config{Options: o, Version: versionText()}
			for _, p := range []struct{ name, to *string }{
				{&argv[0], &cfg.Store}, {&argv[1], &cfg.Mountpoint}, {&from, &cfg.From},
			} {
				if *p.name == "" {
					continue
				}
				if *p.to, err = a.abs(*p.name); err != nil {
					return err
				}
			}
			return a.mount(cmd.Context(), cfg, foreground)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "fill a new store from `DIR`")
	cmd.Flags().BoolVarP(&foreground, "foreground", "f", false, "stay in the foreground")
	cmd.Flags().StringArrayVarP(&options, "options", "o", nil, "mount `OPTION`s, with commas between")
	return cmd
}

// mount is the command, and in the process that it starts, the daemon.
func (a *app) mount(ctx context.Context, cfg daemon.Config, foreground bool) error {
	inherited := daemon.InheritedStarter()
	var s daemon.Starter = &starter{a: a, bar: a.newProgress()}
	if inherited != nil {
		s = inherited
	}
	if err := daemon.Check(&cfg, s.Note); err != nil {
		if inherited != nil {
			s.Failed(err)
		}
		return err
	}
	if foreground {
		if inherited == nil {
			cfg.LogTo = os.Stderr
		}
		return daemon.Run(ctx, cfg, s)
	}
	ready, proc, err := daemon.Spawn(ctx, mountArgs(cfg), s, nil)
	if err != nil {
		return err
	}
	s.Ready(ready)
	return proc.Process.Release()
}

// mountArgs is the command line of the daemon: it reads well in ps(1).
func mountArgs(cfg daemon.Config) []string {
	out := []string{"mount", "-f"}
	if cfg.From != "" {
		out = append(out, "--from", cfg.From)
	}
	if o := cfg.Options.String(); o != "" {
		out = append(out, "-o", o)
	}
	return append(out, "--", cfg.Store, cfg.Mountpoint)
}

// starter tells a person how the start goes.
type starter struct {
	a   *app
	bar *progress
}

func (s *starter) Progress(p control.Progress) { s.bar.show(p) }

func (s *starter) Note(text string) { s.a.note("%s", text) }

func (s *starter) Ready(r daemon.Ready) {
	s.bar.done()
	if s.a.json {
		_ = s.a.printJSON(r)
	} else if isTerminal(s.a.stdout) {
		s.a.printf("mounted %s at %s\n", quote(r.Store), quote(r.Mountpoint))
	}
}

// Failed has nothing to say: the error is also returned, and printed once.
func (s *starter) Failed(error) { s.bar.done() }
