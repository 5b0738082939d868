package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
)

// Outer runs the command in new namespaces and gives its exit status. keep is
// passed on, open, for as long as the inner process lives.
func Outer(c Config, keep *os.File) (int, error) {
	// The parent-death signal is that of the thread which forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("adopting what is left behind: %w", err)
	}
	c.UserNS = !mayMount()
	env, err := c.env()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command("/proc/self/exe", Command)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env)
	cmd.Dir = "/"
	if keep != nil {
		cmd.ExtraFiles = []*os.File{keep}
	}
	cmd.SysProcAttr = namespaces(c.UserNS)
	signals := catch()
	defer signals.stop()
	if err := cmd.Start(); err != nil {
		if c.UserNS && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES)) {
			return 0, fail.New(fail.Failed, "this system does not let ordinary users make namespaces: %w", err).
				WithHint("have root allow it (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces=10000), or use `amberfs mount`")
		}
		return 0, fail.New(fail.Failed, "cannot make the namespaces: %w", err)
	}
	signals.pass(cmd.Process)
	err = cmd.Wait()
	reapRest(0)
	return status(cmd.ProcessState, err)
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

// mayMount says whether this process may mount without a user namespace.
func mayMount() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
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
