package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/mounts"
)

// InForkCommand is the hidden command that must call [InsideFork].
const InForkCommand = "run-in-fork"

// The values of the first argument of InForkCommand: the new namespaces in which the program runs.
const (
	forkMounts = "mounts"
	forkUser   = "user" // user and mount namespace
	forkNone   = "none"
)

// statusNoFork is the exit status if the program was not started. It ends a bisection, because the program
// neither passed nor failed.
const statusNoFork = 255

// endGrace is how long a program has from SIGTERM to SIGKILL.
const endGrace = 300 * time.Millisecond

// InFork runs a program in a fork. The program sees the fork at the path of root, the workspace that
// the fork belongs to. Where namespaces cannot be made, it runs in the fork's own
// directory. InFork returns the exit status as a shell does. When ctx or this process ends,
// the program and all processes that it started end too.
func InFork(ctx context.Context, root, fork string, out *os.File, env []string, argv ...string) (int, error) {
	// The kernel sends the parent-death signal when the thread that forked ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var cmd *exec.Cmd
	var err error
	kinds := []string{forkUser, forkNone}
	if mounts.Privileged() {
		kinds[0] = forkMounts
	}

	for _, kind := range kinds {
		cmd = exec.CommandContext(ctx, "/proc/self/exe", slices.Concat([]string{InForkCommand, kind, root, fork}, argv)...)
		cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
		cmd.Args[0], cmd.Dir, cmd.Env = "amberfs", "/", append(os.Environ(), env...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.SysProcAttr = namespaces(kind == forkUser)
		if kind == forkNone {
			cmd.SysProcAttr.Cloneflags = 0
		}

		cmd.SysProcAttr.Setpgid = true // this process gets the terminal's signals, and ends the program
		if err = cmd.Start(); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return -1, fmt.Errorf("cannot start %s: %w", argv[0], err)
	}

	err = cmd.Wait()
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}

	return status(cmd.ProcessState, err)
}

// InsideFork is the process between InFork and the program. It adopts the processes that the
// program leaves behind, and ends them. A signal ends ctx.
func InsideFork(ctx context.Context, argv []string) (int, error) {
	runtime.LockOSThread() // capabilities and the parent-death signal belong to a thread
	kind, dir, fork, argv := argv[0], argv[1], argv[2], argv[3:]
	if err := AdoptOrphans(); err != nil {
		return statusNoFork, err
	}

	if kind == forkNone {
		dir = fork
	} else if err := daemon.IsolateMounts(); err != nil {
		return statusNoFork, err
	} else if err := unix.Mount(fork, dir, "", unix.MS_BIND, ""); err != nil {
		return statusNoFork, errs.Fail(errs.Failed, "cannot mount %s on %s: %w", fork, dir, err)
	}

	cmd, st, err := program(ctx, argv, dir, kind == forkUser)
	if err != nil {
		return cmp.Or(st, statusNoFork), err
	}

	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(unix.SIGTERM) }, endGrace
	defer reapRest()

	return run(cmd, func() {})
}
