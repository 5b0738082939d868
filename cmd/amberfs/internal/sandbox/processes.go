package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/amberfs/amberfs/internal/process"
)

// A signalPasser passes the signals of this process on to a child.
type signalPasser struct {
	ch           chan os.Signal
	endRequested atomic.Bool // a signal asked for the end
}

// catchSignals begins to queue signals, which passTo sends to a child. If ctx has ended, a signal came before the
// call: then catchSignals queues a SIGTERM.
func catchSignals(ctx context.Context) *signalPasser {
	p := &signalPasser{ch: make(chan os.Signal, 16)}
	signal.Notify(p.ch, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGALRM)
	if ctx.Err() != nil {
		p.ch <- unix.SIGTERM
	}
	return p
}

// passTo sends the queued signals and all later ones to a child, until stop.
func (p *signalPasser) passTo(child *os.Process) {
	go func() {
		for s := range p.ch {
			if slices.Contains([]os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP}, s) {
				p.endRequested.Store(true)
			}
			if !isFromTerminal(s) { // the terminal itself sends its signals to the child, too
				_ = child.Signal(s) // it fails if the child has ended
			}
		}
	}()
}

// RunInForeground runs a program with the streams of this process, and returns its exit status as
// a shell does. Signals to this process are sent on to the program, except for the signals of
// the terminal, which the program gets anyway. onStarted is called after the start, before the first signal is sent on.
func RunInForeground(ctx context.Context, cmd *exec.Cmd, onStarted func()) (int, error) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := catchSignals(ctx)
	defer signals.stop()

	return runCommand(cmd, func() {
		onStarted()
		signals.passTo(cmd.Process)
	})
}

// runCommand runs a program and returns its exit status as a shell does. It calls onStarted after the start.
func runCommand(cmd *exec.Cmd, onStarted func()) (int, error) {
	if err := cmd.Start(); err != nil {
		return commandError(cmd.Args[0], err)
	}

	onStarted()
	waitWithStops(cmd.Process.Pid)
	err := cmd.Wait()
	return exitStatus(cmd.ProcessState, err)
}

// waitWithStops returns when a child has ended. If the child is stopped (SIGTSTP), this process stops too, because the
// shell waits for this process. When the shell continues this process, it continues the child.
func waitWithStops(pid int) {
	const settle, cldStopped = 20 * time.Millisecond, 5
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || info.Code != cldStopped {
			return
		}

		_ = unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOHANG, nil) // so that this stop is not reported again

		// If the terminal stopped the child, it stopped and continued this process together with the child. If the
		// child is still stopped, a signal stopped only the child: then this process stops itself.
		if time.Sleep(settle); isStopped(pid) {
			// The signal must stop this thread first. If another thread stopped first, this thread could
			// continue the child before the shell has taken the terminal back.
			_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP)
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
}

// isStopped reports whether a process is stopped.
func isStopped(pid int) bool {
	return strings.HasPrefix(process.StatusField(pid, "State"), "T")
}

func (p *signalPasser) stop() { signal.Stop(p.ch) }

// isFromTerminal reports whether the terminal has sent a signal to our process group.
func isFromTerminal(s os.Signal) bool {
	if s != unix.SIGINT && s != unix.SIGQUIT && s != unix.SIGWINCH {
		return false
	}

	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if !term.IsTerminal(int(f.Fd())) {
			continue
		}
		fg, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
		return err == nil && fg == unix.Getpgrp()
	}

	return false
}

const maxTermWait = 3 * time.Second

// endChildren ends all children, also adopted ones, except the processes in spare. Processes of amberfs get SIGTERM,
// and SIGKILL after maxTermWait. All others get SIGKILL at once.
func endChildren(spare ...int) {
	deadline := time.Now().Add(maxTermWait)

	for {
		remaining := 0

		for _, pid := range childPIDs() {
			if slices.Contains(spare, pid) {
				continue
			}
			var ws unix.WaitStatus
			if got, err := unix.Wait4(pid, &ws, unix.WNOHANG, nil); err == nil && got == pid {
				continue
			}

			remaining++

			if time.Now().After(deadline) || !isAmberfs(pid) {
				_ = unix.Kill(pid, unix.SIGKILL)
			} else {
				_ = unix.Kill(pid, unix.SIGTERM)
			}
		}
		if remaining == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func childPIDs() []int {
	var out []int
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		b, _ := os.ReadFile(list) // the task may have ended
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				out = append(out, pid)
			}
		}
	}

	return out
}

// isAmberfs reports whether a process runs the same executable as this process. Such a process is a daemon, or runs
// RunInner.
func isAmberfs(pid int) bool {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return false
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && exe == self
}
