package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/keeper"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A Daemon is a running daemon: the store and its parts that serve it.
type Daemon struct {
	cfg        Config
	log        *slog.Logger
	file       *logFile
	store      *snapshot.Store
	mount      *fusefs.Server
	service    *service.Service
	socket     *service.Server
	metrics    *metrics
	events     *events.Log
	connection *service.Connection // to the remotes
	life       context.Context     // the context of background work
	hangUp     context.CancelFunc  // cancels life
	watchers   *watchers
	written    atomic.Uint64 // the node of the last recorded write, see mountEvent
	background background
	started    time.Time
	shared     sharedMount
	// up is closed when the mount answers.
	up chan struct{}
	// crashEnds is the reason why a crash would end the mount; nil if another daemon would take over.
	crashEnds atomic.Pointer[string]
	// pause is how long programs waited for this daemon to take over.
	pause time.Duration
	// unmounted is closed when the kernel has ended the mount. detached is closed by end: the mount
	// was unmounted here, but another mount namespace has a copy of it.
	unmounted, detached chan struct{}
	mountDevice         atomic.Pointer[string] // nil until device has found it in the mount table
	// unmounting is held during umount(2), which returns after the end of the mount, when the kernel has
	// dropped the inodes.
	unmounting sync.Mutex
	end        func()
	ending     atomic.Bool
}

// Run is the whole life of a daemon. It returns when the store is closed. A start that fails is
// reported to s and returned.
func Run(ctx context.Context, cfg Config, s Starter) error {
	unix.Umask(ownerOnly)
	limitMemory()
	// Signals are received before another process can find the daemon, so that no signal to end is lost.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if cfg.LogTo == nil { // without a terminal, SIGHUP has no meaning
		signal.Ignore(unix.SIGHUP)
	}
	defer signal.Stop(signals)

	d, err := start(ctx, cfg, s)
	if err != nil {
		return giveUp(&cfg, s, err)
	}

	time.AfterFunc(joinTime, func() { d.endUnused() }) // the `run` that started it may have been killed
	s(Message{Ready: &Ready{Store: d.cfg.Store, Mountpoint: d.cfg.Mountpoint, PID: os.Getpid(), Created: d.store.Created()}})
	d.notify(systemd.SdNotifyReady)
	d.tellKeeper(keeper.Message{Ready: true})

	return d.waitEnd(signals)
}

// ownerOnly makes new files of this process and its libraries accessible to their owner alone.
const ownerOnly = 0o077

// giveUp reports why a daemon does not become ready, and returns the error for the end of Run. If the
// keeper holds the connection to the kernel, the daemon ends as if it had been killed: it writes, removes
// and releases nothing, and the keeper starts another daemon.
func giveUp(cfg *Config, s Starter, err error) error {
	if cfg.Keeper.Holds() {
		return cfg.Keeper.Fail(err)
	}
	s(Message{Error: errs.ErrorOf(err)})
	return err
}

// start starts the parts in order. If one fails, and no keeper holds the connection to the kernel, it
// stops the others and removes a new store.
func start(ctx context.Context, cfg Config, s Starter) (_ *Daemon, err error) {
	before := cfg.takesOver()
	if before != nil {
		cfg.Store, cfg.Mountpoint = before.Store, before.Mountpoint
	} else if err := check(&cfg, s); err != nil {
		return nil, err
	}

	if cfg.Shared && before == nil && mounts.Privileged() { // without the privilege fusermount3 mounts
		if err := IsolateMounts(); err != nil {
			return nil, err
		}
	}

	d := &Daemon{cfg: cfg, started: time.Now(), file: newLog(cfg.LogTo), up: make(chan struct{}), unmounted: make(chan struct{}), detached: make(chan struct{})}
	d.end = sync.OnceFunc(func() {
		d.log.Warn("another mount namespace still has a copy of the mount; it ends now")
		close(d.detached)
	})

	level := slog.LevelInfo
	if cfg.Options.Debug {
		level = slog.LevelDebug
	}

	d.life, d.hangUp = context.WithCancel(context.Background())
	d.watchers = newWatchers(d)
	d.log = slog.New(slog.NewTextHandler(d.file, &slog.HandlerOptions{Level: level}))
	if err := os.Chdir("/"); err != nil {
		return nil, fmt.Errorf("leaving the working directory: %w", err)
	}
	if before != nil {
		d.retry("opening the log", func() error { return d.file.open(cfg.Store) })
	}

	var undo []func()
	defer func() {
		if err != nil && !cfg.Keeper.Holds() {
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
		}
	}()

	d.connection = &service.Connection{From: cfg.Remote, OrEmpty: cfg.OrEmpty, Timeout: cfg.Patience(), Log: d.log}
	d.store, err = openStore(cfg.Store, snapshot.Options{
		Filling: cfg.From, Logger: d.log, Lock: cfg.lock(), Takeover: before != nil, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), CloseTime: closeTime, Memory: memoryShare(), Frugal: before != nil && cfg.Keeper.Frugal,
		Connect: d.connection.Connect(ctx),
	})
	if err != nil {
		return nil, openError(cfg.Store, err)
	}
	if err = point("opened"); err != nil {
		return nil, err
	}
	if before != nil {
		d.shared.made, d.watchers.time = before.Made, before.Nudge
	}

	undo = append(undo, func() { d.removeMountpoints(); d.store.GiveUp(); d.hangUp(); d.connection.Close() })
	if cfg.Shared && before == nil {
		d.makeMountpoint(cfg.Mountpoint)
	}

	if before == nil {
		if err = d.file.open(cfg.Store); err != nil {
			return nil, err
		}
	}

	undo = append(undo, d.file.close)
	d.log.Info("start", "version", cfg.Version, "pid", os.Getpid(), "store", cfg.Store, "mountpoint", cfg.Mountpoint)

	if before == nil {
		if err = fill(ctx, d.store, cfg, s); err != nil {
			return nil, service.Explain(err)
		}
	}

	if err = d.openEvents(); err != nil {
		return nil, err
	}

	undo = append(undo, func() { d.events.Close() })
	d.service = service.New(d.serviceConfig())
	d.store.OnEvent(d.storeEvent) // after the service is set: a fork may expire at once, and its exports are removed
	if err = d.serveMetrics(); err != nil {
		return nil, err
	}

	undo = append(undo, d.metrics.close)
	// The socket is made before the mount, so that a visible mount has one. Requests on the
	// socket wait until the mount answers.
	if d.socket, err = d.listen(); err != nil {
		return nil, err
	}

	undo = append(undo, func() { d.socket.Close() })
	if err = point("listening"); err != nil {
		return nil, err
	}
	if err = d.store.SetMountpoint(cfg.Mountpoint); err != nil && before == nil {
		return nil, fmt.Errorf("writing down the mount point: %w", err)
	}
	if err = d.attach(); err != nil {
		return nil, errs.Fail(errs.ScriptKind(err), "%w", err)
	}
	if err = point("attached"); err != nil {
		return nil, err
	}

	go d.mount.Serve()
	go func() {
		d.mount.Wait()
		close(d.unmounted)
	}()
	d.later("removing exports", d.dropExports) // the last daemon may have been killed before it removed them
	d.later("erasing what was forgotten", d.eraseForgotten)
	d.later("remotes", func() { d.connection.Run(d.life, d.cfg.Options.Prefetch) })
	d.later("pushes of the policy", func() { d.service.Backups.Run(d.life) })
	close(d.up)
	d.log.Info("mounted", "took", time.Since(d.started).Round(time.Millisecond))
	if before != nil {
		d.finishTakeover()
	}

	return d, point("serving")
}

// waitEnd waits for the end of the mount or for a signal, and ends the daemon in order.
func (d *Daemon) waitEnd(signals <-chan os.Signal) error {
	signalled := false
	select {
	case <-d.unmounted:
		d.unmounting.Lock() // wait for umount(2), so that its caller is answered before the socket closes
		d.log.Info("unmounted")
		d.unmounting.Unlock()
	case <-d.detached:
	case sig := <-signals:
		d.log.Info("signal", "signal", sig.String())
		signalled = true
	}

	d.notify(systemd.SdNotifyStopping)
	d.tellKeeper(keeper.Message{Ending: true})
	d.ending.Store(true)
	d.watchers.close()
	d.store.Forest().Thaw()
	if signalled {
		d.forceUnmount()
	}

	return d.close()
}

// graceTime is how long programs may keep a mount busy after a signal.
const graceTime = 2 * time.Second

// forceUnmount unmounts, after graceTime even if programs use the mount.
func (d *Daemon) forceUnmount() {
	time.AfterFunc(graceTime, d.connection.HangUp)
	done := make(chan error, 1)
	go func() { done <- d.mount.Unmount() }()
	var err error
	select {
	case err = <-done:
	case <-time.After(graceTime):
		err = errors.New("it takes too long")
	}

	if err != nil {
		d.log.Warn("cannot unmount: detaching", "err", err)
		if err := Detach(d.cfg.Mountpoint); err != nil {
			d.log.Warn("detach", "err", err)
		}
	}

	select {
	case <-d.unmounted:
	case <-time.After(graceTime):
		// The connection ends with this process, and programs get ENOTCONN.
		d.log.Warn("programs still use the mount; it ends now")
	}
}

// close ends the parts of the daemon in order, the store last.
func (d *Daemon) close() error {
	d.metrics.close()
	err := d.socket.Close()
	if eerr := d.events.Close(); eerr != nil {
		d.log.Warn("closing the event log", "error", eerr) // it is not part of the acknowledged data
	}

	d.hangUp()
	d.background.close()
	defer time.AfterFunc(graceTime, d.connection.HangUp).Stop()

	d.removeMountpoints()

	if cerr := d.store.Close(); cerr != nil {
		d.log.Error("closing the store", "err", cerr, guard.Stack(cerr))
		err = errors.Join(err, cerr)
	}

	d.connection.Close()
	d.log.Info("end", "after", time.Since(d.started).Round(time.Second))
	d.file.close()

	return err
}

// unmount unmounts for `umount`, or after the last `run`. With lazy it detaches a mount that is in use.
func (d *Daemon) unmount(lazy bool) error {
	if err := d.store.Forest().Sync(); err != nil {
		d.log.Error("sync before unmounting", "err", err)
		if !lazy {
			return service.Explain(fmt.Errorf("writing to disk: %w", err))
		}
	}

	d.store.Forest().Thaw()
	d.watchers.pause()
	var err error
	if _, ok, merr := d.mounted(); ok || merr != nil { // otherwise umount(8) has unmounted it
		d.unmounting.Lock()
		err = d.mount.Unmount()
		d.unmounting.Unlock()
	}

	switch {
	case err == nil:
		select {
		case <-d.unmounted:
		case <-time.After(copyTime):
			d.end()
		}
		return nil

	case !errors.Is(err, unix.EBUSY):
		return errs.Fail(errs.ScriptKind(err), "%w", err)
	case !lazy:
		return errs.Fail(errs.Busy, "the mount at %s is in use", d.cfg.Mountpoint)
	}

	if err := Detach(d.cfg.Mountpoint); err != nil {
		return errs.Fail(errs.Failed, "cannot detach the mount at %s: %w", d.cfg.Mountpoint, err)
	}

	return nil
}

// copyTime is how long the daemon waits after umount(2) for the kernel to end the mount. After it, the
// daemon ends although another mount namespace, such as a container's, has a copy of the mount.
// Acknowledged changes are in the journal.
const copyTime = 2 * time.Second

func (d *Daemon) serviceConfig() service.Config {
	return service.Config{
		Store: d.store, Events: d.events, Remotes: d.connection.Remotes, Log: d.log,
		Mount: service.Mount{
			Point: d.cfg.Mountpoint, Options: d.cfg.Options.String(), Device: d.device, Ready: d.awaitReady, ReadOnly: d.readOnly, Inside: d.inside, Umount: d.umount,
			Requests: func() map[string]uint64 { return d.mount.Counters() }, StaleNames: func() int64 { return d.mount.StaleNames() },
		},
		Daemon: service.Daemon{Version: d.cfg.Version, Started: d.started, Survival: d.survival, Upgrade: d.upgrade},
		Pools: map[service.Cost]*budget.Budget{
			service.Lists: budget.New(memoryShare() / 2), service.Texts: budget.New(memoryShare() / 2), service.Gits: budget.New(memoryShare() / 2),
		},
		Dropped: func() { d.later("removing exports", d.dropExports) },
		Joining: service.Joining{Join: d.join, Leave: d.leave, Hold: d.userHolder()}, Freezing: d.freezing(),
	}
}

// inside returns the programs whose working directory or root is in one of the views or, with roots, only
// the programs whose root is.
func (d *Daemon) inside(views []uint32, roots bool) (out []service.Program) {
	mounts, err := locate.Mounts()
	m, ok := locate.On(mounts, d.cfg.Mountpoint)
	if err != nil || !ok {
		return nil
	}

	links := locate.Dirs
	if roots {
		links = locate.Roots
	}

	for _, u := range locate.Users(m, links, func(ino uint64) bool {
		return slices.Contains(views, live.NodeID(ino).View())
	}) {
		out = append(out, service.Program{PID: u.PID, Command: u.Command})
	}

	return out
}

// awaitReady waits until the mount answers. It fails if the mount is ending.
func (d *Daemon) awaitReady(ctx context.Context) error {
	select {
	case <-d.up:
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.ending.Load() {
		return errs.Fail(errs.Busy, "the mount at %s is ending", d.cfg.Mountpoint)
	}
	return nil
}

// mounted returns the mount in the mount table of this process; ok is false if it is not there.
func (d *Daemon) mounted() (m locate.Mount, ok bool, err error) {
	mounts, err := locate.Mounts()
	if err != nil {
		return nil, false, err
	}
	m, ok = locate.On(mounts, d.cfg.Mountpoint)
	return m, ok && m.Source == d.cfg.Store, nil
}

// device returns the device number of the mount, "" while the mount is not in the mount table. A device
// number that was found once does not change.
func (d *Daemon) device() string {
	if known := d.mountDevice.Load(); known != nil {
		return *known
	}

	m, ok, err := d.mounted()
	if err != nil || !ok {
		return ""
	}

	device := locate.Device(m)
	d.mountDevice.Store(&device)

	return device
}

// readOnly reports whether the mount is read-only now. A remount can change this.
func (d *Daemon) readOnly() bool {
	m, ok, err := d.mounted()
	return ok && slices.Contains(strings.Split(m.VFSOptions, ","), "ro") || err != nil && d.cfg.Options.ReadOnly
}
