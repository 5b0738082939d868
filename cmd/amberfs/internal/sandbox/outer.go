package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/service"
)

type Config struct {
	Store      string   `json:"store"`      // absolute
	Mountpoint string   `json:"mountpoint"` // absolute
	Temp       string   `json:"temp"`       // taken away at the end; "" for none
	From       string   `json:"from"`       // what the daemon fills a new temporary store from; "" for nothing
	Fork       string   `json:"fork"`       // run in this fork, made when missing
	Root       bool     `json:"root"`       // the fork is the root directory of the program
	After      string   `json:"after"`      // capture under this name at the end
	ReadOnly   bool     `json:"read_only"`
	Options    string   `json:"options"` // as after -o
	Command    []string `json:"command"`
	// Actor is the name that the changes of the program have; "" for none.
	Actor string `json:"actor"`
	// Hold has the daemon go on when the program has ended, until outer is done
	// with the workspace. The temporary directory then is outer's to take away.
	Hold bool `json:"hold"`
	// Text is the command for the event log.
	Text string `json:"text"`
	// UserNS is set by Outer when the namespaces include one for users.
	UserNS bool `json:"user_ns"`
	// Shared is the mount point of the daemon that serves Store, set by Outer.
	Shared string `json:"shared"`
	// Tree: the daemon has sent a copy of the mount.
	Tree bool `json:"tree"`
}

// configEnv carries the configuration from outer to inner.
const configEnv = "_AMBERFS_RUN"

// The descriptors that inner gets beside the standard ones.
const (
	lockFD = 3 // keeps the lock of the temporary directory, or nothing
	holdFD = 4 // of Config.Hold
	treeFD = 5 // of Config.Shared: a copy of the mount, if Config.Tree
	joinFD = 6 // of Config.Shared: the connection to the daemon
)

// Command is the hidden command that must call Inner.
const Command = "run-inside"

func (c Config) env() (string, error) {
	b, err := json.Marshal(c)
	return configEnv + "=" + string(b), err
}

// inherited reads the configuration, and hides it from the program.
func inherited() (Config, error) {
	var c Config
	err := json.Unmarshal([]byte(os.Getenv(configEnv)), &c)
	if err != nil || len(c.Command) == 0 && !c.Root {
		return c, fail.New(fail.Usage, "%s is for `amberfs run` only", Command)
	}
	return c, os.Unsetenv(configEnv)
}

// The statuses that env(1) and nohup(1) give, too.
const (
	statusCannotExecute = 126
	statusNoCommand     = 127
	statusSignal        = 128
)

// Outer runs the command in new namespaces and gives its exit status. keep is
// passed on, locked, for as long as the inner process lives. With Config.Hold, started
// is called when the program has been started, and ended when it has ended, while the
// daemon still serves the store.
func Outer(ctx context.Context, c Config, keep *TempDir, note func(string), started, ended func()) (int, error) {
	// The parent-death signal is that of the thread which forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := adoptOrphans(); err != nil {
		return 0, err
	}
	c.UserNS = !mounts.Privileged()
	var shared *service.Joined
	daemonPID := 0
	if c.Temp == "" {
		var err error
		shared, daemonPID, err = joinStore(ctx, &c, &daemon.Starter{Note: note, Progress: func(service.Progress) {}})
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
		return 0, namespaceError(c.UserNS, fmt.Errorf("cannot create the namespaces: %w", err))
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

func namespaceError(user bool, err error) error {
	if user && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES)) {
		return fail.New(fail.Failed, "this system forbids ordinary users to create namespaces: %w", err).
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

// leaveTime is how long the last `run` on a store waits for the end of the daemon.
const leaveTime = 30 * time.Second

// joinStore joins the daemon that serves the store, and starts one if there is none. It
// returns the process that it started, or 0.
func joinStore(ctx context.Context, c *Config, s *daemon.Starter) (_ *service.Joined, pid int, err error) {
	want, err := mountOptions(*c)
	if err != nil {
		return nil, 0, err
	}
	var j *service.Joined
	err = daemon.WhenFree(ctx, c.Store, func() (err error) {
		for {
			j, err = service.Join(ctx, c.Store, service.JoinRequest{Options: want})
			if fail.KindOf(err) != fail.NotFound || ctx.Err() != nil {
				return err
			}
			if pid, err = startShared(ctx, *c, s); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return nil, 0, err
	}
	c.Shared, c.Tree = j.Mountpoint, j.Tree != nil
	return j, pid, nil
}

// mountOptions are the options that the caller has named.
func mountOptions(c Config) (string, error) {
	words := []string{}
	if c.Options != "" {
		words = append(words, c.Options)
	}
	if c.ReadOnly {
		words = append(words, "ro")
	}
	o, err := mountopt.Parse(words...)
	return o.String(), err
}

// startShared starts a daemon in its own namespaces, so that it can outlive this process.
func startShared(ctx context.Context, c Config, s *daemon.Starter) (pid int, err error) {
	attr := namespaces(c.UserNS)
	attr.Setsid, attr.Pdeathsig = true, 0
	_, cmd, err := daemon.Spawn(ctx, mountArgs(c, "--shared"), s, attr)
	if err != nil {
		return 0, namespaceError(c.UserNS, err)
	}
	return cmd.Process.Pid, nil
}

// attach puts a copy of the daemon's mount in the place where this run wants it.
func attach(c Config) error {
	tree := treeFD
	if !c.Tree { // the daemon may not copy it
		var err error
		if tree, err = unix.OpenTree(unix.AT_FDCWD, c.Shared, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
			return fail.New(fail.Busy, "the store %s is mounted at %s, and the mount cannot be used here: %w", c.Store, c.Shared, err).
				WithHint("unmount it first with `amberfs umount %s`", c.Shared)
		}
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, c.Mountpoint, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fail.New(fail.Failed, "cannot mount on %s: %w", c.Mountpoint, err)
	}
	return nil
}

// joinedDaemon is the shared daemon, as the inner process sees it.
func joinedDaemon() *inside {
	d := &inside{gone: make(chan struct{})}
	go func() {
		_, _ = os.NewFile(joinFD, "daemon").Read(make([]byte, 1)) // it sends nothing
		close(d.gone)
	}()
	return d
}
