package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/service"
)

// Outer runs the command in new namespaces and gives its exit status. keep is
// passed on, locked, for as long as the inner process lives. With Config.Hold, started
// is called when the program has been started, and ended when it has ended, while the
// daemon still serves the store.
func Outer(ctx context.Context, c Config, keep *TempDir, note func(string), started, ended func()) (int, error) {
	// The parent-death signal is that of the thread which forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("adopting what is left behind: %w", err)
	}
	c.UserNS = !mounts.Privileged()
	var shared *service.Joined
	daemonPID := 0
	if c.Temp == "" {
		var err error
		shared, daemonPID, err = joinStore(ctx, &c, quietStarter{note, func(service.Progress) {}})
		if err != nil {
			return 0, err
		}
		defer shared.Close()
	}
	env, err := c.env()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command("/proc/self/exe", Command)
	cmd.Args[0] = "amberfs"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{nil, nil, nil, nil}
	if keep != nil {
		cmd.ExtraFiles[0] = keep.lock
	}
	if shared != nil {
		cmd.ExtraFiles[2], cmd.ExtraFiles[3] = shared.Tree, shared.Conn
	}
	var held *os.File
	if c.Hold {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return 0, err
		}
		held, cmd.ExtraFiles[1] = os.NewFile(uintptr(ends[0]), "hold"), os.NewFile(uintptr(ends[1]), "hold")
		defer held.Close()
		defer cmd.ExtraFiles[1].Close()
	}
	cmd.SysProcAttr = namespaces(c.UserNS)
	signals := catch()
	defer signals.stop()
	if err := cmd.Start(); err != nil {
		return 0, namespaceError(c.UserNS, fmt.Errorf("cannot make the namespaces: %w", err))
	}
	if shared != nil && shared.Tree != nil {
		shared.Tree.Close() // a mount stays in use as long as it is open
	}
	signals.pass(cmd.Process)
	if c.Hold {
		cmd.ExtraFiles[1].Close()
		for _, fn := range []func(){started, ended} {
			if n, _ := held.Read(make([]byte, 1)); n == 1 { // else inner has ended without
				fn()
			}
		}
		held.Close()
	}
	err = cmd.Wait()
	reapRest(daemonPID)
	if shared != nil && !shared.Leave(int(leaveTime.Milliseconds())) {
		note("the daemon has not ended yet; nothing acknowledged is lost")
	}
	return status(cmd.ProcessState, err)
}

// namespaceError explains why a process in new namespaces did not start.
func namespaceError(user bool, err error) error {
	if user && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES)) {
		return fail.New(fail.Failed, "this system does not let ordinary users make namespaces: %w", err).
			WithHint("have root allow it (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces=10000), or use `amberfs mount`")
	}
	return err
}

// namespaces is how the inner process comes to its own mounts.
func namespaces(user bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGTERM}
	if user {
		uid, gid := os.Geteuid(), os.Getegid()
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return a
}

// status is the exit status for how a process ended.
func status(st *os.ProcessState, err error) (int, error) {
	if st == nil {
		return 0, err
	}
	ws, ok := st.Sys().(syscall.WaitStatus)
	if !ok {
		return 0, err
	}
	if ws.Signaled() {
		return statusSignal + int(ws.Signal()), nil
	}
	return ws.ExitStatus(), nil
}
