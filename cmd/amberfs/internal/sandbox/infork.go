package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/mounts"
)

// InFork is a program that runs in a fork, which it sees in the place of the workspace
// that the fork belongs to. Where namespaces cannot be made, it runs in the fork's own
// directory.
type InFork struct {
	Root    string   `json:"root"` // of the workspace
	Fork    string   `json:"fork"` // its directory
	Command []string `json:"command"`
	Env     []string `json:"env"`
	Private bool     `json:"private"` // set by Run: in namespaces of its own
	UserNS  bool     `json:"user_ns"` // set by Run

	Output *os.File `json:"-"` // of the program, both standard ones
}

// InForkCommand is the hidden command that must call [InsideFork].
const InForkCommand = "run-in-fork"

const (
	inForkEnv = "_AMBERFS_RUN_IN_FORK"
	// endGrace is how long a program has from SIGTERM to SIGKILL.
	endGrace = 300 * time.Millisecond
)

// Run runs the program and returns its exit status as a shell does. When the context
// ends, or this process, so do the program and all that it started.
func (c InFork) Run(ctx context.Context) (int, error) {
	// The parent-death signal is that of the thread which forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.Private, c.UserNS = true, !mounts.Privileged()
	cmd, err := c.start(ctx)
	if err != nil && ctx.Err() == nil {
		c.Private, c.UserNS = false, false
		cmd, err = c.start(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot start %s: %w", c.Command[0], err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	return status(cmd.ProcessState, err)
}

func (c InFork) start(ctx context.Context) (*exec.Cmd, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", InForkCommand)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.Args[0], cmd.Dir = "amberfs", "/"
	cmd.Stdout, cmd.Stderr = c.Output, c.Output
	cmd.Env = append(os.Environ(), inForkEnv+"="+string(b))
	cmd.SysProcAttr = namespaces(c.UserNS)
	if !c.Private {
		cmd.SysProcAttr.Cloneflags = 0
	}
	cmd.SysProcAttr.Setpgid = true // the terminal's signals end it through this process
	return cmd, cmd.Start()
}

// InsideFork is the process between: it adopts the processes of the program and ends them.
func InsideFork() (int, error) {
	runtime.LockOSThread() // capabilities and the parent-death signal are a thread's
	var c InFork
	if err := json.Unmarshal([]byte(os.Getenv(inForkEnv)), &c); err != nil || len(c.Command) == 0 {
		return 0, fail.New(fail.Usage, "%s is for `amberfs bisect` and `amberfs explore` only", InForkCommand)
	}
	if err := os.Unsetenv(inForkEnv); err != nil {
		return 0, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("adopting orphans: %w", err)
	}
	dir := c.Fork
	if c.Private {
		dir = c.Root
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return 0, fmt.Errorf("cannot make the mounts private: %w", err)
		}
		if err := unix.Mount(c.Fork, c.Root, "", unix.MS_BIND, ""); err != nil {
			return 0, fmt.Errorf("cannot mount %s on %s: %w", c.Fork, c.Root, err)
		}
	}
	if c.UserNS {
		if err := dropCapabilities(); err != nil {
			return 0, fmt.Errorf("giving up capabilities: %w", err)
		}
	}
	if err := NoNewPrivileges(); err != nil {
		return 0, err
	}
	path, err := lookPath(c.Command[0], dir)
	if err != nil {
		return commandError(c.Command[0], err)
	}
	cmd := exec.CommandContext(ctx, path, c.Command[1:]...)
	cmd.Args[0], cmd.Dir, cmd.Env = c.Command[0], dir, append(append(os.Environ(), "PWD="+dir), c.Env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(unix.SIGTERM) }, endGrace
	if err := cmd.Start(); err != nil {
		return commandError(c.Command[0], err)
	}
	err = cmd.Wait()
	reapRest(0)
	return status(cmd.ProcessState, err)
}
