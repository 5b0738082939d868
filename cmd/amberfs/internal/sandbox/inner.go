package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/internal/errs"
)

// RunInner is the main function of the inner process, which runs in the namespaces. It returns the program's exit
// status. printNote prints a remark for the user.
func RunInner(ctx context.Context, printNote func(string)) (int, error) {
	runtime.LockOSThread() // capabilities and the parent-death signal belong to a thread
	defer runtime.UnlockOSThread()

	c, err := readInheritedConfig(os.NewFile(configFD, "configuration"))
	if err != nil {
		return 0, err
	}
	for _, fd := range []int{lockFD, startedFD, treeFD, joinFD} {
		unix.CloseOnExec(fd)
	}
	for i := range c.OtherDirs {
		unix.CloseOnExec(otherDirsFD + i)
	}

	daemonCtx, cancelDaemonCtx := context.WithCancel(context.Background()) // daemonCtx ends with the daemon
	go func() {
		_, _ = os.NewFile(joinFD, "daemon").Read(make([]byte, 1)) // the daemon sends no byte, so Read returns at its end
		cancelDaemonCtx()
	}()
	signals := catchSignals(ctx)
	defer signals.stop()

	if err := AdoptOrphans(); err != nil {
		return 0, err
	}

	if !c.NoNamespaces {
		if err := errors.Join(daemon.IsolateMounts(), attachMount(c, treeFD), attachOtherDirs(c)); err != nil {
			return 0, err
		}
	}
	defer endChildren()

	dir := c.startDir()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); c.UserNS && !c.ForkIsRoot && c.TempDir == "" {
		if err != nil {
			return 0, errs.Fail(errs.Perm, "cannot use %s: %w", c.Store, err).WithHint("a store of a `run --root` needs --root")
		}
		if !c.InPlace && st.Mode&unix.S_IWUSR == 0 {
			printNote("you may not change the workspace: a store of a `run --root` needs --root")
		}
	}

	return runProgram(daemonCtx, c, dir, signals)
}

// runProgram runs the program in dir without the right to mount, and kills it when the daemon
// ends. The caller has locked the thread.
func runProgram(daemonCtx context.Context, c Config, dir string, signals *signalPasser) (int, error) {
	var cmd *exec.Cmd
	ready := func() {}
	var st int
	var err error
	name := "the program"
	if c.ForkIsRoot {
		cmd, ready, err = CommandInRoot(daemonCtx, dir, c.Command, c.Image)
	} else {
		name = c.Command[0]
		cmd, st, err = programCommand(daemonCtx, c.Command, dir, c.UserNS)
	}
	if err != nil {
		return st, err
	}

	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	st, err = runCommand(cmd, func() {
		ready()
		signals.passTo(cmd.Process)
		_, _ = unix.Write(startedFD, []byte{0}) // outer may have ended
	})
	if daemonCtx.Err() == nil || st != statusSignalBase+int(unix.SIGKILL) {
		return st, err
	}

	e := errs.Fail(errs.Failed, "the daemon of the workspace ended before %s did", name)
	if c.TempDir == "" {
		return 0, e.WithHint("nothing acknowledged is lost; %s/amberfs.log can have the reason", c.Store)
	}

	return 0, e
}

// programCommand returns a command that starts in dir and is killed when this thread ends. If dropCaps is set, the
// thread and the command have no capabilities. After an error, the int is the exit status that a shell would return. The
// caller must have locked the thread.
func programCommand(ctx context.Context, argv []string, dir string, dropCaps bool) (*exec.Cmd, int, error) {
	path, err := lookPath(argv[0], dir)
	if err != nil {
		st, err := commandError(argv[0], err)
		return nil, st, err
	}

	if dropCaps {
		if err := dropCapabilities(); err != nil {
			return nil, 0, fmt.Errorf("giving up capabilities: %w", err)
		}
	}

	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Dir, cmd.Env = argv, dir, append(os.Environ(), "PWD="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return cmd, 0, NoNewPrivileges()
}

// AdoptOrphans makes this process the parent of the processes that its descendants leave behind.
func AdoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopting processes left behind: %w", err)
	}
	return nil
}

// NoNewPrivileges prevents programs that this thread starts later from gaining rights, for example by the
// set-user-ID bit. The caller must have locked the thread.
func NoNewPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	return nil
}

func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&hdr, &none[0])
}

// lookPath finds a program as a shell in dir would.
func lookPath(name, dir string) (string, error) {
	if filepath.Base(name) != name {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	return exec.LookPath(name)
}

// commandError returns the exit status and the error of a program that could not be started.
func commandError(name string, err error) (int, error) {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return statusNoCommand, errs.Fail(errs.Failed, "no such command: %s", name)
	}
	return statusCannotExecute, errs.Fail(errs.Failed, "cannot run %s: %w", name, err)
}
