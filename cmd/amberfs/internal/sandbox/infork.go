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

// MainInForkCommand is the hidden command that must call [MainInFork].
const MainInForkCommand = "run-in-fork"

// The values of the first argument of MainInForkCommand: the new namespaces in which the program runs.
const (
	newMountNS = "mounts"
	newUserNS  = "user" // user and mount namespace
	noNewNS    = "none"
)

// statusNotStarted is the exit status if the program was not started. It ends a bisection, because the program
// neither passed nor failed.
const statusNotStarted = 255

// termGrace is how long a program has from SIGTERM to SIGKILL.
const termGrace = 300 * time.Millisecond

// RunInFork runs a program in a fork. The program sees the fork at the path of root, the workspace that
// the fork belongs to. Where namespaces cannot be made, it runs in the fork's own
// directory. RunInFork returns the exit status as a shell does. When ctx or this process ends,
// the program and all processes that it started end too.
func RunInFork(ctx context.Context, root, fork string, out *os.File, env []string, argv ...string) (int, error) {
	// The kernel sends the parent-death signal when the thread that forked ends, so this thread must not end before
	// the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var cmd *exec.Cmd
	var err error
	kinds := []string{newUserNS, noNewNS}
	if mounts.Privileged() {
		kinds[0] = newMountNS
	}

	for _, kind := range kinds {
		cmd = exec.CommandContext(ctx, "/proc/self/exe", slices.Concat([]string{MainInForkCommand, kind, root, fork}, argv)...)
		cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
		cmd.Args[0], cmd.Dir, cmd.Env = "amberfs", "/", append(os.Environ(), env...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.SysProcAttr = namespaceAttrs(kind == newUserNS)
		if kind == noNewNS {
			cmd.SysProcAttr.Cloneflags = 0
		}

		cmd.SysProcAttr.Setpgid = true // only this process gets the terminal's signals, and then ends the program
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

	return exitStatus(cmd.ProcessState, err)
}

// MainInFork is the main function of the process between RunInFork and the program. It adopts the processes that the
// program leaves behind, and ends them. ctx ends when this process gets a signal; then the program gets SIGTERM.
func MainInFork(ctx context.Context, argv []string) (int, error) {
	runtime.LockOSThread() // capabilities and the parent-death signal belong to a thread
	kind, dir, fork, argv := argv[0], argv[1], argv[2], argv[3:]
	if err := AdoptOrphans(); err != nil {
		return statusNotStarted, err
	}

	if kind == noNewNS {
		dir = fork
	} else if err := daemon.IsolateMounts(); err != nil {
		return statusNotStarted, err
	} else if err := unix.Mount(fork, dir, "", unix.MS_BIND, ""); err != nil {
		return statusNotStarted, errs.Fail(errs.Failed, "cannot mount %s on %s: %w", fork, dir, err)
	}

	cmd, st, err := programCommand(ctx, argv, dir, kind == newUserNS)
	if err != nil {
		return cmp.Or(st, statusNotStarted), err
	}

	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(unix.SIGTERM) }, termGrace
	defer endChildren()

	return runCommand(cmd, func() {})
}
