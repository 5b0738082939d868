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

// Config describes a run. Outer passes it on to the inner process.
type Config struct {
	Store      string // absolute path
	Mountpoint string // absolute path
	Temp       string // directory of a temporary store, which is removed at the end; "" for other stores
	Fork       string // the program runs in this fork; "": in the workspace main
	InPlace    bool   // the fork, not the workspace, is at Mountpoint
	Root       bool   // the fork is the root directory of the program
	Command    []string
	Options    mountopt.Options
	Image      *info.Image // with Root: the configuration of the fork's image; nil for none
	Also       []Also      // with InPlace: other directories in the run

	// Outer sets the fields below.
	Served Served // the daemon that serves Store
	UserNS bool   // the namespaces include one for users
	Plain  bool   // without namespaces: the program runs at Served.Point
}

// Served is the daemon that serves a store of a run.
type Served struct {
	Point  string // its mount point
	Tree   bool   // it has sent a copy of the mount
	Daemon int    // the id of the process that Outer started; 0 if a daemon served the store before
}

// The descriptors that inner gets besides the standard ones. Process 1 of a container gets configFD and caughtFD.
const (
	configFD = 3 // a file with the Config: a command can be longer than an environment variable
	lockFD   = 4 // keeps the lock of the temporary directory, if there is one
	startFD  = 5 // gets a byte when the program has been started
	treeFD   = 6 // a copy of the daemon's mount, if Served.Tree
	joinFD   = 7 // the connection to the daemon
	alsoFD   = 8 // and the following ones: the copies of the mounts of Config.Also

	caughtFD = 4 // in a container: closed when process 1 has handlers for signals
)

// Command is the hidden command that must call Inner.
const Command = "run-inside"

// file returns the configuration as a file in memory. In JSON its paths would have to be UTF-8.
func (c Config) file() (*os.File, error) {
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

// readInherited reads the configuration that the outer process passed on.
func readInherited(f *os.File) (Config, error) {
	var c Config
	err := gob.NewDecoder(io.NewSectionReader(f, 0, math.MaxInt64)).Decode(&c)
	if err != nil || len(c.Command) == 0 && !c.Root {
		return c, errs.Fail(errs.Invalid, "%s is for `amberfs run` only", Command)
	}
	return c, f.Close() // the program does not inherit it
}

// Exit statuses, as those of env(1) and nohup(1).
const (
	statusCannotExecute = 126
	statusNoCommand     = 127
	statusSignal        = 128
)

// endedBy are the exit statuses of a program that a user or the system ended by a signal.
var endedBy = []int{statusSignal + int(unix.SIGHUP), statusSignal + int(unix.SIGINT), statusSignal + int(unix.SIGTERM)}

// Ended describes how a program ended.
type Ended struct {
	Started     bool
	Served      bool // the daemon still serves
	Interrupted bool // by a signal, so its changes may be incomplete
}

// Outer runs the command in new namespaces and returns its exit status. The inner process inherits
// the lock of keep, so that no other run removes the directory before inner has ended. Outer calls before when
// the daemon serves the store, and after when the program has ended. With c.InPlace, the program is
// registered as a user of c.Fork until it ends.
func Outer(ctx context.Context, c Config, keep *TempDir, s daemon.Starter, before func(*Config) error, after func(Ended) error) (int, error) {
	// The kernel sends the parent-death signal when the thread that forked ends.
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
	also, trees, err := joinAlso(ctx, &c, s)
	defer func() {
		if c.Temp != "" && !c.Plain {
			killDaemons(c)
		}
		for _, j := range append(also, joined) {
			leave(j, s)
		}
	}()
	if err != nil {
		return 0, err
	}

	if err := before(&c); err != nil {
		return 0, err
	}

	if c.Plain {
		s(daemon.Message{Note: "this system forbids namespaces to ordinary users, so the command runs at another path: " + c.dir() +
			"\n\tabsolute paths to " + c.Mountpoint + " lead to the original"})
	}

	if c.UserNS && !c.Plain && belongsToOthers(c.Mountpoint) {
		s(daemon.Message{Note: "files of other users and groups appear as yours here, with the access that you have: chgrp to another group, and ACL entries for others, fail"})
	}

	leaveForks, err := joinForks(ctx, c, s)
	defer leaveForks()
	if err != nil {
		return 0, err
	}

	config, err := c.file()
	if err != nil {
		return 0, err
	}
	defer config.Close()

	started, start, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer started.Close()

	cmd := exec.Command("/proc/self/exe", Command)
	cmd.Args[0] = "amberfs"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{config, nil, start, joined.MountCopy, joined.Conn}
	cmd.ExtraFiles = append(cmd.ExtraFiles, trees...)
	if keep != nil {
		cmd.ExtraFiles[lockFD-configFD] = keep.lock
	}
	if cmd.SysProcAttr = namespaces(c.UserNS); c.Plain {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM}
	}

	signals := catch(ctx)
	defer signals.stop()

	err = cmd.Start()
	start.Close()
	if err != nil {
		return 0, namespaceError(c.UserNS, fmt.Errorf("cannot create the namespaces: %w", err))
	}

	joined.MountCopy.Close()
	for _, j := range also {
		j.MountCopy.Close()
	}

	signals.pass(cmd.Process)
	stopWith(cmd.Process.Pid)
	err = cmd.Wait()
	st, err := status(cmd.ProcessState, err)
	reapRest(daemons(c)...)
	leaveForks() // before after is called, which counts the users of the forks
	if n, _ := started.Read(make([]byte, 1)); err == nil {
		err = after(Ended{n == 1, !joined.WaitEnded(0), signals.ended.Load() && st != 0 || slices.Contains(endedBy, st)})
	}

	return st, err
}

// Serve calls fn while a daemon serves a store. It starts a daemon if none serves the store.
func Serve(ctx context.Context, store string, s daemon.Starter, fn func() error) error {
	c := Config{Store: store, UserNS: !mounts.Privileged()}
	joined, err := joinStore(ctx, &c, s)
	if err != nil {
		return err
	}
	defer leave(joined, s)

	return fn()
}

// Joined is a program that is registered as a user of a fork.
type Joined struct {
	conn *service.JoinConnection
	s    daemon.Starter
}

// Join registers this process as a user of a fork, until Leave.
func Join(ctx context.Context, store, fork string, s daemon.Starter) (Joined, error) {
	conn, err := service.Join(ctx, store, "", fork)
	return Joined{conn, s}, err
}

func (j Joined) Leave() { leave(j.conn, j.s) }

// leave closes the copy of a mount and the connection, and waits until the daemon has noticed.
func leave(j *service.JoinConnection, s daemon.Starter) {
	j.MountCopy.Close() // a mount stays in use as long as it is open
	if !j.Leave(int(leaveTime.Milliseconds())) {
		s(daemon.Message{Note: "the daemon has not ended yet; nothing acknowledged is lost"})
	}
	j.Close()
}

// dir returns the directory in which the program starts.
func (c *Config) dir() string {
	dir := c.Mountpoint
	if c.Plain {
		dir = c.Served.Point
	}
	if c.Fork != "" && (c.Plain || !c.InPlace) {
		dir = filepath.Join(dir, naming.ForksDir, c.Fork)
	}

	return dir
}

// plainPoint returns the path at which fusermount3 mounts a store for an ordinary user who cannot create
// namespaces.
func plainPoint(store string) string {
	dir := env.Get("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("amberfs-%d", os.Geteuid()))
	}

	dir = filepath.Join(dir, "amberfs")
	sum := sha256.Sum256([]byte(store))
	return filepath.Join(dir, fmt.Sprintf("%s-%x", filepath.Base(store), sum[:4]))
}

// forbidden reports whether an error can mean that the system does not allow an ordinary user to create
// namespaces, or to mount in them.
func forbidden(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES) || errs.ScriptKind(err) == errs.Perm
}

func namespaceError(user bool, err error) error {
	if user && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES)) {
		return errs.Fail(errs.Failed, "this system forbids ordinary users to create namespaces: %w", err).
			WithHint("have root allow it (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces=10000), or use `amberfs mount`")
	}
	return err
}

// namespaces returns the attributes of a process with a mount namespace of its own; with user, also
// with a user namespace that maps the caller alone.
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

// status returns the exit status of an ended process as a shell does. err is the error of Wait.
func status(st *os.ProcessState, err error) (int, error) {
	if st == nil {
		return 0, err
	}
	if ws := st.Sys().(syscall.WaitStatus); ws.Signaled() {
		return statusSignal + int(ws.Signal()), nil
	}

	return st.ExitCode(), nil
}

// leaveTime is the longest time that the last `run` on a store waits for the end of the daemon.
const leaveTime = 30 * time.Second

// joinStore joins the daemon that serves the store. It starts a daemon if none serves the store.
func joinStore(ctx context.Context, c *Config, s daemon.Starter) (j *service.JoinConnection, err error) {
	cfg := daemon.Config{Store: c.Store, Mountpoint: daemon.RunMountpoint(c.Store), Shared: true, Options: c.Options}
	if c.UserNS {
		cfg.Groups = groups()
	}
	if err := checkGroup(ctx, c); err != nil {
		return nil, err
	}

	err = daemon.WhenFree(ctx, c.Store, func() (err error) {
		for {
			j, err = service.Join(ctx, c.Store, c.Options.String(), "")
			if errs.ScriptKind(err) != errs.NotExist || ctx.Err() != nil {
				return err
			}

			// The daemon has its own namespaces, so that it can outlive this process.
			attr := namespaces(c.UserNS)
			attr.Setsid, attr.Pdeathsig = true, 0
			ready, cmd, err := daemon.Spawn(ctx, cfg, s, attr)
			if err != nil && c.UserNS && !c.Root && forbidden(err) {
				c.UserNS, cfg.Groups = false, nil
				cfg.Mountpoint = plainPoint(c.Store)
				if err = os.MkdirAll(filepath.Dir(cfg.Mountpoint), 0o700); err == nil {
					ready, cmd, err = daemon.Spawn(ctx, cfg, s, &syscall.SysProcAttr{Setsid: true})
				}
			}
			if err != nil {
				return namespaceError(c.UserNS, err)
			}

			s(daemon.Message{Ready: &ready})
			c.Served.Daemon = cmd.Process.Pid
		}
	})
	if err == nil {
		c.Served.Point, c.Served.Tree = j.Mountpoint, j.MountCopy != nil
		c.Plain = j.Mountpoint == plainPoint(c.Store) && !c.Root
	}

	return j, err
}

// groups returns the ids of the user's groups. The daemon in a user namespace cannot read them.
func groups() []uint {
	all := []uint{uint(os.Getegid())}
	more, _ := os.Getgroups()
	for _, g := range more {
		all = append(all, uint(g))
	}
	return all
}

// belongsToOthers reports whether a directory, or one of its entries, belongs to another user or group.
func belongsToOthers(dir string) bool {
	other := func(path string) bool {
		var st unix.Stat_t
		return unix.Lstat(path, &st) == nil && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid())
	}
	names, _ := os.ReadDir(dir) // an unreadable directory is not in the run
	return other(dir) || slices.ContainsFunc(names, func(e os.DirEntry) bool { return other(filepath.Join(dir, e.Name())) })
}

// attach mounts the copy of the daemon's mount, the descriptor tree, at the mount point of this run.
func attach(c Config, tree int) error {
	if !c.Served.Tree { // the daemon has no right to copy its mount
		var err error
		if tree, err = unix.OpenTree(unix.AT_FDCWD, c.Served.Point, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
			return errs.Fail(errs.Busy, "the store %s is mounted at %s, and the mount cannot be used here: %w", c.Store, c.Served.Point, err).
				WithHint("unmount it first with `amberfs umount %s`", c.Served.Point)
		}
	}
	defer unix.Close(tree)

	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, c.Mountpoint, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
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

	daemon.FirstOpen(c.Mountpoint)

	return nil
}
