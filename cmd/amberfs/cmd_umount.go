package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/sys/mountinfo"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

func umountCommand(a *app) *cobra.Command {
	var lazy bool
	cmd := &cobra.Command{
		Use:     "umount MOUNTPOINT|STORE",
		Aliases: []string{"unmount"},
		Short:   "Unmount a workspace",
		Long: `Unmounts a workspace and waits until its daemon has ended. Then everything acknowledged
is in the store, which can be mounted or copied.

If programs use the mount, umount names them and exits with status 5.

While another mount namespace (a container) has a copy of the mount, the daemon survives
umount(8). "amberfs umount STORE" ends it.`,
		Example: `  amberfs umount ~/work`,
		Args:    argumentCountCheck(1, 1, "one MOUNTPOINT or STORE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			point, err := a.absPath(argv[0])
			if err != nil {
				return err
			}
			return umount(cmd.Context(), a, point, lazy)
		},
	}

	cmd.Flags().BoolVarP(&lazy, "lazy", "l", false, "detach now, and wait until no program uses it")
	return cmd
}

// A umountResult is the output of `amberfs umount --json`.
type umountResult struct {
	Store      string `json:"store"`
	Mountpoint string `json:"mountpoint"`
	DaemonDead bool   `json:"dead,omitempty"`
}

// umount unmounts a mount point or a store, and waits for the end of the daemon.
func umount(ctx context.Context, a *app, point string, lazy bool) error {
	all, err := locate.Mounts()
	if err != nil {
		return err
	}

	point = locate.Resolve(all, point)
	m, ok := locate.MountAt(all, point)
	if !ok {
		// The argument may also be a store that is mounted.
		if ms := locate.StoreMounts(all, point); len(ms) > 0 {
			m, ok = ms[len(ms)-1], true
		}
	}

	if ok && m.Root != "/" {
		return errs.Fail(errs.Invalid, "%s is a bind mount of part of a workspace", m.Mountpoint).
			WithHint("unmount it with `umount %s`", m.Mountpoint)
	}
	if !ok { // the argument may be a store whose mount is only in another mount namespace
		m = &mountinfo.Info{Source: point, Mountpoint: point}
	}

	done := umountResult{Store: m.Source, Mountpoint: m.Mountpoint}
	c, err := client.Open(ctx, client.Target{Store: m.Source, Command: a.command})
	if !ok && err != nil {
		return errs.Fail(errs.NotExist, "%s is not a mount of amberfs", point)
	}

	if errs.ScriptKind(err) == errs.NotExist {
		if daemon.Ping(m.Mountpoint) == nil {
			return errs.Fail(errs.Failed, "the store %s of this mount cannot be reached from here: %w", m.Source, err).
				WithHint("run it outside of the sandbox, or use `fusermount3 -u %s`", m.Mountpoint)
		}
		if storedir.HolderIsDying(m.Source) { // no keeper is left that could end the connection of the mount
			_ = mounts.Abort(m.Mountpoint, m.Source) // fails if the connection has ended, or if the user has no right
		}
		if err := daemon.UnmountLazily(m.Mountpoint); err != nil {
			return errs.Fail(errs.Failed, "cannot unmount the dead mount at %s: %w", m.Mountpoint, err)
		}

		done.DaemonDead = true
		a.note("the daemon of %s was not running; nothing acknowledged is lost", m.Mountpoint)

		return a.print(done, func() {})
	}
	if err != nil {
		return err
	}
	defer c.Close()

	wait, err := processWaiter(c.DaemonPID())
	if err != nil {
		return err
	}

	var ended service.Unmounted
	err = c.Do(ctx, service.Umount{Lazy: lazy}, client.Streams{}, &ended)
	if errs.ScriptKind(err) == errs.Busy {
		return inUseError(m, err)
	}
	if err != nil {
		return err
	}

	done.Mountpoint = ended.Mountpoint
	if err := wait(ctx); err != nil { // the daemon seals the last changes before it ends
		return err
	}

	if reason := engine.LastCheckpointError(m.Source); reason != "" {
		fmt.Fprintln(a.stderr, "amberfs: "+gitquote.EscapeControls(fmt.Sprintf(
			"the last checkpoint of %s failed; nothing is lost, the store has what is not sealed: %s", m.Source, reason), ""))
	}

	return a.print(done, func() {})
}

// inUseError returns an error with the programs that keep a mount busy, as far as this user can see them.
func inUseError(m locate.Mount, cause error) error {
	var programs []string
	users := locate.UsingProcesses(m, locate.AllLinks, nil)
	for i, u := range users {
		if i == 5 {
			programs = append(programs, fmt.Sprintf("%d more", len(users)-i))
			break
		}

		programs = append(programs, fmt.Sprintf("%s (process %d, %s)", u.Command, u.PID, u.Path))
	}

	suffix := ""
	if len(programs) > 0 {
		suffix = " by " + strings.Join(programs, ", ")
	}

	return errs.Fail(errs.Busy, "the mount at %s is in use%s", m.Mountpoint, suffix).WithHint("end these programs, or detach the mount with --lazy").WithCause(cause)
}

// processWaiter returns a function that waits for the end of a process. processWaiter opens the process at once,
// because after the end of the process another one may get its number.
func processWaiter(pid int) (wait func(context.Context) error, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || pid == 0 {
		return func(context.Context) error { return nil }, nil
	}
	if err != nil {
		return nil, errs.Fail(errs.Failed, "cannot watch the daemon, process %d: %w", pid, err)
	}

	return func(ctx context.Context) error {
		defer unix.Close(fd)
		for ctx.Err() == nil {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 200)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return errs.Fail(errs.Failed, "waiting for the daemon: %w", err)
			}
			if n > 0 {
				return nil
			}
		}

		return ctx.Err()
	}, nil
}
