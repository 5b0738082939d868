package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/fusefs/takeover"
	"github.com/amberfs/amberfs/fusefs/takeover/keeper"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// This file has the daemon's side of the protocol with its keeper: the daemon gives the keeper the mount, takes a
// mount over from an earlier daemon, and reports its state. See package keeper.

// inheritedConnection returns the connection to the kernel that this daemon takes over. It returns nil if the daemon
// makes a new mount.
func (cfg *Config) inheritedConnection() *keeper.Connection {
	if cfg.Keeper == nil {
		return nil
	}
	return cfg.Keeper.Connection
}

// inheritedLock returns the lock of the store in a takeover, else nil.
func (cfg *Config) inheritedLock() *os.File {
	if cfg.inheritedConnection() == nil {
		return nil
	}
	return os.NewFile(uintptr(cfg.Keeper.Lock), "lock")
}

func (d *Daemon) listenOnSocket() (*service.Server, error) {
	if d.cfg.inheritedConnection() == nil {
		return d.service.Listen(d.cfg.Store, nil)
	}
	return d.service.Listen(d.cfg.Store, os.NewFile(uintptr(d.cfg.Keeper.Socket), "socket"))
}

// setKeeperOptions sets the options of a mount whose daemon has the keeper l.
func setKeeperOptions(o *fusefs.Options, l *keeper.Link) {
	if l == nil {
		return
	}

	o.HasKeeper, o.Poison = true, l.Poison
	suspects := newSuspects(l.Suspects)
	o.OnResent = func(unique uint64, answered bool) {
		if answered {
			l.Send(keeper.Message{AnsweredRequest: unique})
			suspects.endTurn(unique)
		} else if suspects.beginTurn(unique) {
			l.Send(keeper.Message{BegunRequest: unique})
		}
	}
}

// attachMount makes the mount, or takes it over. From then on, the keeper starts another daemon after a crash, unless
// crashState.endReason is set.
func (d *Daemon) attachMount() (err error) {
	l := d.cfg.Keeper
	if c := d.cfg.inheritedConnection(); c != nil {
		d.mount.server, err = fusefs.TakeOver(d.mountOptions(), l.Device, takeover.Connection{Init: c.Init, Answer: c.Answer})
		if err != nil {
			return err
		}

		d.watchKeeper()
		return nil
	}

	if d.mount.server, err = fusefs.Mount(d.mountOptions()); err != nil {
		return err
	}

	switch {
	case l == nil:
		d.crashState.setEndReason("it has no keeper")
	case !d.mount.server.CanResend():
		d.crashState.setEndReason("this kernel does not send requests again, as Linux 6.9 and newer do")
	default:
		if err := d.giveMountToKeeper(); err != nil {
			d.log.Error("handing the mount to the keeper", "err", err)
			d.crashState.setEndReason("the keeper could not take it")
		}
		d.watchKeeper()
	}

	return nil
}

// giveMountToKeeper sends the keeper the connection to the kernel, with the descriptors of the device, the lock
// and the socket.
func (d *Daemon) giveMountToKeeper() error {
	if err := d.store.Connect(); err != nil {
		return err
	}

	fd, c := d.mount.server.Connection()
	d.sharedMount.mu.Lock()
	defer d.sharedMount.mu.Unlock()

	return withFD(d.socket, func(socket int) error {
		return d.cfg.Keeper.SendConnection(&keeper.Connection{
			Store: d.cfg.Store, Mountpoint: d.cfg.Mountpoint, Init: c.Init, Answer: c.Answer, MadeDirs: d.sharedMount.madeDirs, NudgeMtime: d.inotify.nudgeMtime,
		}, fd, d.store.LockFD(), socket)
	})
}

// withFD calls fn with the descriptor of a socket. It does not use os.File.Fd, which makes the descriptor blocking:
// Close of a blocking descriptor waits until its readers return.
func withFD(c syscall.Conn, fn func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}

	var ferr error
	err = raw.Control(func(fd uintptr) { ferr = fn(int(fd)) })
	return errors.Join(err, ferr)
}

// watchKeeper waits in the background for the end of the keeper. The daemon continues without it.
func (d *Daemon) watchKeeper() {
	go func() {
		<-d.cfg.Keeper.KeeperEnded()

		if !d.mount.ending.Load() {
			d.log.Warn("the keeper has ended: a crash of the daemon ends the mount now")
			d.crashState.setEndReason("its keeper has ended")
			d.socket.BecomePeer()
		}
	}()
}

// finishTakeover ends a takeover when the mount answers. It records an event, counts the users of the earlier
// daemon, and answers a client that asked for an upgrade.
func (d *Daemon) finishTakeover() {
	l := d.cfg.Keeper
	d.crashState.takeoverPause = time.Since(l.DiedAt)
	pause := d.crashState.takeoverPause.Round(time.Millisecond)
	d.log.Warn("the daemon was replaced; programs waited", "reason", l.Reason, "restarts", l.Restarts, "pause", pause)
	d.events.log.Record(events.Event{
		Action: events.Restarted, Workspace: live.MainView, Path: ".", From: l.Reason, Detail: pause.String(),
		UID: uint32(os.Geteuid()), PID: uint32(os.Getpid()), Command: "amberfs",
	})
	if err := d.events.log.Flush(); err != nil { // not later, because the next crash may follow at once
		d.log.Warn("writing events", "err", err)
	}

	d.sharedMount.mu.Lock()

	for _, u := range l.Users {
		if u.State == keeper.Joined {
			d.sharedMount.users++
		}
	}

	d.sharedMount.mu.Unlock()

	for i, u := range l.Users {
		left := func() { l.Send(keeper.Message{LeftUser: u.ID}) }

		switch u.State {
		case keeper.Joined:
			if err := d.service.Joins.Rejoin(l.Conns[i], u.Fork, left); err != nil {
				d.log.Error("a run that joined", "err", err)
				d.leaveMount()
			}

		case keeper.Upgrading:
			d.answerUpgrade(l.Conns[i])
			left()
		}
	}
}

// userHolder returns the function service.JoinHooks.Hold, nil without a keeper. The function sends the
// connection of an `amberfs run` to the keeper, so that the connection outlives the daemon. The caller
// calls the function joined when the run has its answer, and the function left when the run has ended.
func (d *Daemon) userHolder() func(*net.UnixConn, string) (joined, left func()) {
	l := d.cfg.Keeper
	if l == nil {
		return nil
	}
	return func(c *net.UnixConn, fork string) (joined, left func()) {
		u := &keeper.User{Fork: fork, State: keeper.Joining}
		if err := addUser(l, c, u); err != nil {
			d.log.Warn("a run would not survive a crash", "err", err)
		}

		return func() { l.Send(keeper.Message{User: &keeper.User{ID: u.ID, State: keeper.Joined}}) },
			func() { l.Send(keeper.Message{LeftUser: u.ID}) }
	}
}

// addUser sends the user u, and its connection c, to the keeper l.
func addUser(l *keeper.Link, c *net.UnixConn, u *keeper.User) error {
	return withFD(c, func(fd int) error { return l.AddUser(u, fd) })
}

// freezeHooks returns the hooks that tell the keeper l when a freeze ends. The keeper passes this time on to the next
// daemon. l may be nil.
func freezeHooks(l *keeper.Link) service.FreezeHooks {
	f := service.FreezeHooks{NotifyKeeper: func(until time.Time) { l.Send(keeper.Message{FrozenUntil: &until}) }}
	if l != nil {
		f.EndedEarlyAt, f.EndReason = l.ThawedAt, l.Reason
	}
	return f
}

// crashState describes the takeover at the start of this daemon, and whether the mount would survive another crash.
type crashState struct {
	keeper        *keeper.Link           // may be nil
	endReason     atomic.Pointer[string] // the reason why a crash would end the mount; nil if another daemon would take over
	takeoverPause time.Duration          // how long programs waited for this daemon to take over
}

func (c *crashState) setEndReason(reason string) { c.endReason.Store(&reason) }

// survival describes the last takeover, and whether the mount would survive a crash.
func (c *crashState) survival() service.Survival {
	var s service.Survival
	if why := c.endReason.Load(); why != nil {
		s.CrashEnds = *why
	}
	if l := c.keeper; l != nil {
		s.Restarts, s.Restart, s.Pause = l.Restarts, l.Reason, c.takeoverPause.Seconds()
	}

	return s
}

// Terms returns a text that must be the same for two programs if one is to replace the other under a mount:
// the format of the store, the version of the keeper's messages, and the answer to INIT.
func (cfg *Config) Terms(init []byte) (string, error) {
	answer, err := fusefs.AnswerInit(fusefs.Options{Flags: cfg.flags(), Logger: slog.New(slog.DiscardHandler)}, init)
	return fmt.Sprintf("%skeeper %d\n%x\n", storedir.FormatLine, keeper.Version, answer), err
}

const (
	// termsTimeout is the time in which a program must print its terms.
	termsTimeout = 10 * time.Second
	// TermsCommand is the hidden command that prints Terms. Its arguments are those of mount.
	TermsCommand = "terms"
)

// upgrade checks a program, and asks the keeper to replace this daemon by a daemon that runs the program.
// takeConnection returns the client's connection, on which the next daemon answers. After upgrade has called
// takeConnection, it returns nil, and reports a failure on the connection.
func (d *Daemon) upgrade(ctx context.Context, program string, takeConnection func() (*net.UnixConn, error)) error {
	if why := d.crashState.endReason.Load(); why != nil {
		return errs.Fail(errs.Failed, "the daemon of %s cannot be replaced: %s", d.cfg.Store, *why).WithHint("unmount first")
	}
	if err := d.compareTerms(ctx, program); err != nil {
		return err
	}
	if err := d.store.Checkpoint(ctx); err != nil { // so that the next daemon starts fast
		d.log.Warn("checkpoint before the upgrade", "err", err)
	}
	if err := d.drainSocket(ctx); err != nil {
		return err
	}
	if err := d.events.log.Flush(); err != nil { // stores the events of the last commands, before the next daemon reads the log
		d.log.Warn("writing events", "err", err)
	}

	c, err := takeConnection()
	if err != nil {
		d.socket.Undrain()
		return nil // the client has closed its connection
	}

	if err := addUser(d.cfg.Keeper, c, &keeper.User{State: keeper.Upgrading}); err != nil {
		d.socket.Undrain()
		service.AnswerUpgrade(c, service.Upgraded{}, err)
		return nil
	}

	d.log.Info("upgrade", "program", program)
	d.cfg.Keeper.Send(keeper.Message{UpgradeTo: program})

	return nil
}

// maxDrainWait is the time for which an upgrade waits for running commands. Commands that begin in this time wait for
// the upgrade.
const maxDrainWait = 30 * time.Second

// drainSocket waits until no command is running, so that the end of this daemon interrupts none.
func (d *Daemon) drainSocket(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxDrainWait)
	defer cancel()

	running := d.socket.Drain(ctx)
	if len(running) == 0 {
		return nil
	}

	return errs.Fail(errs.Busy, "the daemon was not replaced: after %v it still answers %s", maxDrainWait, strings.Join(running, ", ")).
		WithHint("upgrade when that has ended")
}

// compareTerms runs a program to print its terms, and fails if they differ from the daemon's.
func (d *Daemon) compareTerms(ctx context.Context, program string) error {
	_, c := d.mount.server.Connection()
	ours, err := d.cfg.Terms(c.Init)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, termsTimeout)
	defer cancel()

	cmd := exec.CommandContext(ctx, program, append([]string{TermsCommand}, d.cfg.Args()[1:]...)...)
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(c.Init)
	theirs, err := cmd.Output()
	if err != nil {
		return errs.Fail(errs.Failed, "%s cannot replace the daemon: it does not print its terms: %w", program, err).
			WithHint("unmount first, and mount with it")
	}
	if len(theirs) == 0 {
		return errs.Fail(errs.Invalid, "%s is no amberfs, or one without upgrades: it prints no terms", program)
	}

	if string(theirs) != ours {
		return errs.Fail(errs.Failed, "%s cannot replace the daemon under a mount: its store format, or what it promises the kernel, differs", program).
			WithHint("unmount first, and mount with it")
	}

	return nil
}

// answerUpgrade answers a client that asked the earlier daemon for an upgrade. f is its connection.
func (d *Daemon) answerUpgrade(f *os.File) {
	c, err := net.FileConn(f)
	f.Close()

	if err != nil {
		d.log.Warn("answering an upgrade", "err", err)
		return
	}

	if why := d.cfg.Keeper.RefusalReason; why != "" {
		err = errs.Fail(errs.Failed, "the upgrade failed, and the daemon is the old program again: %s", why).
			WithHint("the log is amberfs.log in the store")
	}

	service.AnswerUpgrade(c, service.Upgraded{Version: d.cfg.Version, PID: os.Getpid(), Pause: d.crashState.takeoverPause.Seconds()}, err)
}
