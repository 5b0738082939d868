package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// Config describes a run. RunOuter passes it on to the inner process.
type Config struct {
	Store      string // absolute path
	Mountpoint string // absolute path
	TempDir    string // directory of a temporary store, which is removed at the end; "" for other stores
	Fork       string // the program runs in this fork; "": in the workspace main
	InPlace    bool   // the fork, not the workspace, is at Mountpoint
	ForkIsRoot bool   // the fork is the root directory of the program
	Command    []string
	Options    mountopt.Options
	Image      *info.Image // if ForkIsRoot is set: the configuration of the fork's image; nil for none
	OtherDirs  []OtherDir  // if InPlace is set: other directories in the run

	// RunOuter sets the fields below.
	Server       Server // the daemon that serves Store
	UserNS       bool   // the run has a user namespace, too
	NoNamespaces bool   // without namespaces: the program runs at Server.Mountpoint
}

// Server is the daemon that serves a store of a run.
type Server struct {
	Mountpoint string // its mount point
	HasTree    bool   // the daemon has sent a copy of the mount
	DaemonPID  int    // the id of the process that RunOuter started; 0 if a daemon served the store before
}

// The descriptors that inner gets besides the standard ones. Process 1 of a container gets configFD and handlersFD.
const (
	configFD    = 3 // a file with the Config, because a command can be too long for an environment variable
	lockFD      = 4 // keeps the lock of the temporary directory, if there is one
	startedFD   = 5 // gets a byte when the program has been started
	treeFD      = 6 // a copy of the daemon's mount, if Server.HasTree
	joinFD      = 7 // the connection to the daemon
	otherDirsFD = 8 // the first of the copies of the mounts of Config.OtherDirs, which have consecutive descriptors

	handlersFD = 4 // in a container: closed when process 1 has handlers for signals
)

// RunInnerCommand is the hidden command that must call RunInner.
const RunInnerCommand = "run-inside"

// memoryFile returns the configuration as a file in memory. The file is not in JSON, in which paths would have to be
// UTF-8.
func (c Config) memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("amberfs-run", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}

	f := os.NewFile(uintptr(fd), "memfd:amberfs-run")
	if err := gob.NewEncoder(f).Encode(c); err != nil {
		f.Close()
		return nil, fmt.Errorf("writing the configuration of the run: %w", err)
	}

	return f, nil
}

// readInheritedConfig reads the configuration that the outer process passed on.
func readInheritedConfig(f *os.File) (Config, error) {
	var c Config
	err := gob.NewDecoder(io.NewSectionReader(f, 0, math.MaxInt64)).Decode(&c)
	if err != nil || len(c.Command) == 0 && !c.ForkIsRoot {
		return c, errs.Fail(errs.Invalid, "%s is for `amberfs run` only", RunInnerCommand)
	}
	return c, f.Close() // closed, so that the program does not inherit the descriptor
}

// Exit statuses, as those of env(1) and nohup(1).
const (
	statusCannotExecute = 126
	statusNoCommand     = 127
	statusSignalBase    = 128
)

// endingStatuses are the exit statuses of a program that a user or the system ended by a signal.
var endingStatuses = []int{statusSignalBase + int(unix.SIGHUP), statusSignalBase + int(unix.SIGINT), statusSignalBase + int(unix.SIGTERM)}

// Outcome describes how a program ended.
type Outcome struct {
	Started     bool
	StillServed bool // the daemon still serves the store
	Interrupted bool // the program was ended by a signal, so its changes may be incomplete
}

// RunOuter runs the command in new namespaces and returns its exit status. The inner process inherits
// the lock of temp, so that no other run removes the directory before inner has ended. RunOuter calls onServed
// when the daemon serves the store, and onEnded when the program has ended. If c.InPlace is set, the program
// is registered as a user of c.Fork until it ends.
func RunOuter(ctx context.Context, c Config, temp *TempDir, s daemon.MessageFunc, onServed func(*Config) error, onEnded func(Outcome) error) (int, error) {
	// The kernel sends the parent-death signal when the thread that forked ends, so this thread must not end before
	// the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	if err := AdoptOrphans(); err != nil {
		return 0, err
	}

	c.UserNS = !mounts.Privileged()
	joined, err := joinStore(ctx, &c, s)
	if err != nil {
		return 0, err
	}
	otherConnections, mountCopies, err := joinOtherStores(ctx, &c, s)
	defer func() {
		if c.TempDir != "" && !c.NoNamespaces {
			killDaemons(c)
		}
		for _, j := range append(otherConnections, joined) {
			leaveDaemon(j, s)
		}
	}()
	if err != nil {
		return 0, err
	}

	if err := onServed(&c); err != nil {
		return 0, err
	}

	if c.NoNamespaces {
		s(daemon.Message{Note: "this system forbids namespaces to ordinary users, so the command runs at another path: " + c.startDir() +
			"\n\tabsolute paths to " + c.Mountpoint + " lead to the original"})
	}

	if c.UserNS && !c.NoNamespaces && hasForeignEntries(c.Mountpoint) {
		s(daemon.Message{Note: "files of other users and groups appear as yours here, with the access that you have: chgrp to another group, and ACL entries for others, fail"})
	}

	leaveForks, err := joinForks(ctx, c, s)
	defer leaveForks()
	if err != nil {
		return 0, err
	}

	config, err := c.memoryFile()
	if err != nil {
		return 0, err
	}
	defer config.Close()

	startedRead, startedWrite, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer startedRead.Close()

	cmd := exec.Command("/proc/self/exe", RunInnerCommand)
	cmd.Args[0] = "amberfs"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{config, nil, startedWrite, joined.MountCopy, joined.Conn}
	cmd.ExtraFiles = append(cmd.ExtraFiles, mountCopies...)
	if temp != nil {
		cmd.ExtraFiles[lockFD-configFD] = temp.lockFile
	}
	if cmd.SysProcAttr = namespaceAttrs(c.UserNS); c.NoNamespaces {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM}
	}

	signals := catchSignals(ctx)
	defer signals.stop()

	err = cmd.Start()
	startedWrite.Close()
	if err != nil {
		return 0, namespaceError(c.UserNS, fmt.Errorf("cannot create the namespaces: %w", err))
	}

	joined.MountCopy.Close()
	for _, j := range otherConnections {
		j.MountCopy.Close()
	}

	signals.passTo(cmd.Process)
	waitWithStops(cmd.Process.Pid)
	err = cmd.Wait()
	st, err := exitStatus(cmd.ProcessState, err)
	endChildren(daemonPIDs(c)...)
	leaveForks() // before onEnded is called, which counts the users of the forks
	if n, _ := startedRead.Read(make([]byte, 1)); err == nil {
		err = onEnded(Outcome{n == 1, !joined.WaitEnded(0), signals.endRequested.Load() && st != 0 || slices.Contains(endingStatuses, st)})
	}

	return st, err
}

// WithDaemon calls fn while a daemon serves a store. It starts a daemon if none serves the store.
func WithDaemon(ctx context.Context, store string, s daemon.MessageFunc, fn func() error) error {
	c := Config{Store: store, UserNS: !mounts.Privileged()}
	joined, err := joinStore(ctx, &c, s)
	if err != nil {
		return err
	}
	defer leaveDaemon(joined, s)

	return fn()
}

// JoinFork registers this process as a user of a fork, until leave is called.
func JoinFork(ctx context.Context, store, fork string, s daemon.MessageFunc) (leave func(), err error) {
	conn, err := service.Join(ctx, store, "", fork)
	return sync.OnceFunc(func() { leaveDaemon(conn, s) }), err
}

// leaveDaemon closes the copy of a mount and the connection, and waits until the daemon has noticed.
func leaveDaemon(j *service.JoinConnection, s daemon.MessageFunc) {
	j.MountCopy.Close() // a mount is in use as long as a copy of it is open
	if !j.Leave(int(maxLeaveWait.Milliseconds())) {
		s(daemon.Message{Note: "the daemon has not ended yet; nothing acknowledged is lost"})
	}
	j.Close()
}

// startDir returns the directory in which the program starts.
func (c *Config) startDir() string {
	dir := c.Mountpoint
	if c.NoNamespaces {
		dir = c.Server.Mountpoint
	}
	if c.Fork != "" && (c.NoNamespaces || !c.InPlace) {
		dir = filepath.Join(dir, naming.ForksDir, c.Fork)
	}

	return dir
}

// unprivilegedMountpoint returns the path at which fusermount3 mounts a store for an ordinary user who cannot create
// namespaces.
func unprivilegedMountpoint(store string) string {
	dir := env.Get("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("amberfs-%d", os.Geteuid()))
	}

	dir = filepath.Join(dir, "amberfs")
	sum := sha256.Sum256([]byte(store))
	return filepath.Join(dir, fmt.Sprintf("%s-%x", filepath.Base(store), sum[:4]))
}

// isForbidden reports whether an error can mean that the system does not allow an ordinary user to create
// namespaces, or to mount in them.
func isForbidden(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES) || errs.ScriptKind(err) == errs.Perm
}

func namespaceError(userNS bool, err error) error {
	if userNS && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES)) {
		return errs.Fail(errs.Failed, "this system forbids ordinary users to create namespaces: %w", err).
			WithHint("have root allow it (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces=10000), or use `amberfs mount`")
	}
	return err
}

// namespaceAttrs returns the attributes of a process with a mount namespace of its own. If userNS is set, the
// process also has a user namespace that maps the caller alone.
func namespaceAttrs(userNS bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGTERM}
	if userNS {
		uid, gid := os.Geteuid(), os.Getegid()
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}

	return a
}

// exitStatus returns the exit status of an ended process as a shell does. err is the error of Wait.
func exitStatus(st *os.ProcessState, err error) (int, error) {
	if st == nil {
		return 0, err
	}
	if ws := st.Sys().(syscall.WaitStatus); ws.Signaled() {
		return statusSignalBase + int(ws.Signal()), nil
	}

	return st.ExitCode(), nil
}

// maxLeaveWait is the longest time that the last `run` on a store waits for the end of the daemon.
const maxLeaveWait = 30 * time.Second

// joinStore joins the daemon that serves the store. It starts a daemon if none serves the store. It sets the fields of c
// that RunOuter must set.
func joinStore(ctx context.Context, c *Config, s daemon.MessageFunc) (j *service.JoinConnection, err error) {
	cfg := daemon.Config{Store: c.Store, Mountpoint: daemon.RunMountpoint(c.Store), Shared: true, Options: c.Options}
	if c.UserNS {
		cfg.Groups = userGroups()
	}
	if err := checkPrimaryGroup(ctx, c); err != nil {
		return nil, err
	}

	err = daemon.RetryWhileBusy(ctx, c.Store, func() (err error) {
		for {
			j, err = service.Join(ctx, c.Store, c.Options.String(), "")
			if errs.ScriptKind(err) != errs.NotExist || ctx.Err() != nil {
				return err
			}

			// The daemon has its own namespaces, so that it can outlive this process.
			attr := namespaceAttrs(c.UserNS)
			attr.Setsid, attr.Pdeathsig = true, 0
			ready, cmd, err := daemon.Spawn(ctx, cfg, s, attr)
			if err != nil && c.UserNS && !c.ForkIsRoot && isForbidden(err) {
				c.UserNS, cfg.Groups = false, nil
				cfg.Mountpoint = unprivilegedMountpoint(c.Store)
				if err = os.MkdirAll(filepath.Dir(cfg.Mountpoint), 0o700); err == nil {
					ready, cmd, err = daemon.Spawn(ctx, cfg, s, &syscall.SysProcAttr{Setsid: true})
				}
			}
			if err != nil {
				return namespaceError(c.UserNS, err)
			}

			s(daemon.Message{Ready: &ready})
			c.Server.DaemonPID = cmd.Process.Pid
		}
	})
	if err == nil {
		c.Server.Mountpoint, c.Server.HasTree = j.Mountpoint, j.MountCopy != nil
		c.NoNamespaces = j.Mountpoint == unprivilegedMountpoint(c.Store) && !c.ForkIsRoot
	}

	return j, err
}

// userGroups returns the ids of the user's groups. They are passed to the daemon, which cannot read them in a user
// namespace.
func userGroups() []uint {
	all := []uint{uint(os.Getegid())}
	more, _ := os.Getgroups()
	for _, g := range more {
		all = append(all, uint(g))
	}
	return all
}

// hasForeignEntries reports whether a directory, or one of its entries, belongs to another user or group.
func hasForeignEntries(dir string) bool {
	other := func(path string) bool {
		var st unix.Stat_t
		return unix.Lstat(path, &st) == nil && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid())
	}
	names, _ := os.ReadDir(dir) // of an unreadable directory, only the directory itself is examined
	return other(dir) || slices.ContainsFunc(names, func(e os.DirEntry) bool { return other(filepath.Join(dir, e.Name())) })
}

// attachMount mounts the copy of the daemon's mount, whose descriptor is copyFD, at the mount point of this run.
func attachMount(c Config, copyFD int) error {
	if !c.Server.HasTree { // the daemon sent no copy, because it has no right to copy its mount
		var err error
		if copyFD, err = unix.OpenTree(unix.AT_FDCWD, c.Server.Mountpoint, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
			return errs.Fail(errs.Busy, "the store %s is mounted at %s, and the mount cannot be used here: %w", c.Store, c.Server.Mountpoint, err).
				WithHint("unmount it first with `amberfs umount %s`", c.Server.Mountpoint)
		}
	}
	defer unix.Close(copyFD)

	if err := unix.MoveMount(copyFD, "", unix.AT_FDCWD, c.Mountpoint, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return errs.Fail(errs.Failed, "cannot mount on %s: %w", c.Mountpoint, err)
	}

	if c.InPlace {
		fork := filepath.Join(c.Mountpoint, naming.ForksDir, c.Fork)
		fd, err := unix.OpenTree(unix.AT_FDCWD, fork, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err == nil {
			err = unix.MoveMount(fd, "", unix.AT_FDCWD, c.Mountpoint, unix.MOVE_MOUNT_F_EMPTY_PATH)
			_ = unix.Close(fd)
		}
		if err != nil {
			return errs.Fail(errs.Failed, "cannot mount the run on %s: %w", c.Mountpoint, err)
		}
	}

	daemon.PrimeMount(c.Mountpoint)

	return nil
}
