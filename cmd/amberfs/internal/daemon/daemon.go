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
	life       context.Context     // of what is done automatically
	hangUp     context.CancelFunc  // ends life
	watchers   *watchers
	// written is the node that was written to last.
	written    atomic.Uint64
	background background
	started    time.Time
	shared     shared
	// up is closed when the mount answers.
	up chan struct{}
	// alone is why a crash would end the mount, "" if it would not. pause is how long programs
	// waited for this daemon to take over.
	alone atomic.Pointer[string]
	pause time.Duration
	// unmounted is closed when the kernel has ended the mount. gone is closed by end when
	// the mount has left the directory tree, but a copy remains.
	unmounted, gone chan struct{}
	mountDevice     atomic.Pointer[string] // nil until it was found in the mount table
	unmounting      sync.Mutex             // held during umount(2), which outlasts the mount while the kernel drops its inodes
	end             func()
	ending          atomic.Bool
}

// Run is the whole life of a daemon. It returns when the store is closed. A start that fails is
// reported to s and returned.
func Run(ctx context.Context, cfg Config, s Starter) error {
	unix.Umask(ownerOnly)
	limitMemory()
	// Before another process can know of the daemon: a signal to end it must not be lost.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if cfg.LogTo == nil { // it has no terminal that could go away
		signal.Ignore(unix.SIGHUP)
	}
	defer signal.Stop(signals)

	d, err := start(ctx, cfg, s)
	if err != nil {
		return giveUp(&cfg, s, err)
	}

	time.AfterFunc(joinTime, func() { d.endUnused() }) // its starter may have been killed
	s(Message{Ready: &Ready{Store: d.cfg.Store, Mountpoint: d.cfg.Mountpoint, PID: os.Getpid(), Created: d.store.Created()}})
	d.notify(systemd.SdNotifyReady)
	d.tellKeeper(keeper.Message{Ready: true})

	return d.live(signals)
}

// ownerOnly makes new files of this process and its libraries accessible to their owner alone.
const ownerOnly = 0o077

// giveUp is the end of a daemon that does not become ready. If the keeper holds the connection to the
// kernel, the daemon ends as if it had been killed: it writes, removes and releases nothing, and the
// keeper starts another one.
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

	if cfg.Shared && before == nil && mounts.Privileged() { // else it is mounted by fusermount3
		if err := PrivateMounts(); err != nil {
			return nil, err
		}
	}

	d := &Daemon{cfg: cfg, started: time.Now(), file: newLog(cfg.LogTo), up: make(chan struct{}), unmounted: make(chan struct{}), gone: make(chan struct{})}
	d.end = sync.OnceFunc(func() {
		d.log.Warn("another mount namespace still has a copy of the mount; it ends now")
		close(d.gone)
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
		d.again("opening the log", func() error { return d.file.open(cfg.Store) })
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

	undo = append(undo, func() { d.removeMade(); d.store.GiveUp(); d.hangUp(); d.connection.Close() })
	if cfg.Shared && before == nil {
		d.makePoint(cfg.Mountpoint)
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
	d.store.OnEvent(d.storeEvent) // it needs the service: a fork's time may be over
	if err = d.serveMetrics(); err != nil {
		return nil, err
	}

	undo = append(undo, d.metrics.close)
	// Before the mount, so that the socket is there when the mount is. Requests wait
	// until the mount is up.
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
	d.later("removing exports", d.dropExports) // the last daemon may have been killed before
	d.later("remotes", func() { d.connection.Run(d.life, d.cfg.Options.Prefetch) })
	d.later("pushes of the policy", func() { d.service.Backup(d.life) })
	close(d.up)
	d.log.Info("mounted", "took", time.Since(d.started).Round(time.Millisecond))
	if before != nil {
		d.resumed()
	}

	return d, point("serving")
}

// live waits for the end, and ends in order.
func (d *Daemon) live(signals <-chan os.Signal) error {
	signalled := false
	select {
	case <-d.unmounted:
		d.unmounting.Lock() // the caller of umount is answered before the socket closes
		d.log.Info("unmounted")
		d.unmounting.Unlock()
	case <-d.gone:
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
		d.endSoon()
	}

	return d.close()
}

// graceTime is how long programs may keep a mount busy after a signal.
const graceTime = 2 * time.Second

// endSoon unmounts, even if programs use the mount.
func (d *Daemon) endSoon() {
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

func (d *Daemon) close() error {
	d.metrics.close()
	err := d.socket.Close()
	if eerr := d.events.Close(); eerr != nil {
		d.log.Warn("closing the event log", "error", eerr) // it is not part of the acknowledged data
	}

	d.hangUp()
	d.background.close()
	defer time.AfterFunc(graceTime, d.connection.HangUp).Stop()

	d.removeMade()

	if cerr := d.store.Close(); cerr != nil {
		d.log.Error("closing the store", "err", cerr, guard.Stack(cerr))
		err = errors.Join(err, cerr)
	}

	d.connection.Close()
	d.log.Info("end", "after", time.Since(d.started).Round(time.Second))
	d.file.close()

	return err
}

// unmount is what `umount` asks for.
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
	if _, ok, merr := d.mounted(); ok || merr != nil { // else umount(8) has done it
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

// copyTime is how long requests under way may take after a mount was unmounted. Then it ends,
// although another mount namespace, such as that of a container, has a copy. What was
// acknowledged is in the journal.
const copyTime = 2 * time.Second

func (d *Daemon) serviceConfig() service.Config {
	return service.Config{
		Store: d.store, Events: d.events, Remotes: d.connection.Remotes, Log: d.log, Mountpoint: d.cfg.Mountpoint, Device: d.device, Options: d.cfg.Options.String(),
		Version: d.cfg.Version, Started: d.started, Ready: d.awaitReady, ReadOnly: d.readOnly, Umount: d.umount, Inside: d.inside,
		Joining:  service.Joining{Join: d.join, Leave: d.leave, Hold: d.holdUser()},
		Survival: d.survival, Freezing: d.freezing(),
		Upgrade:  d.upgrade,
		Requests: func() map[string]uint64 { return d.mount.Counters() }, StaleNames: func() int64 { return d.mount.StaleNames() },
		Memory:  budget.New(memoryShare() / 2),
		Lists:   budget.New(memoryShare() / 2),
		Git:     budget.New(memoryShare() / 2),
		Dropped: func() { d.later("removing exports", d.dropExports) },
	}
}

func (d *Daemon) inside(views []uint32, roots bool) (out []service.Program) {
	mounts, err := locate.Mounts()
	m, ok := locate.On(mounts, d.cfg.Mountpoint)
	if err != nil || !ok {
		return nil
	}

	places := locate.Places
	if roots {
		places = locate.Roots
	}

	for _, u := range locate.Users(m, places, func(ino uint64) bool {
		return slices.Contains(views, live.NodeID(ino).View())
	}) {
		out = append(out, service.Program{PID: u.PID, Command: u.Command})
	}

	return out
}

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

// mounted returns the mount as this mount namespace has it; ok is false if it is gone.
func (d *Daemon) mounted() (m locate.Mount, ok bool, err error) {
	mounts, err := locate.Mounts()
	if err == nil {
		m, ok = locate.On(mounts, d.cfg.Mountpoint)
	}
	return m, ok && m.Source == d.cfg.Store, err
}

// device returns the device of the mount, "" where the mount is not seen. It stays the same.
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

// readOnly reports whether the mount is, by now: it can be remounted.
func (d *Daemon) readOnly() bool {
	m, ok, err := d.mounted()
	return ok && slices.Contains(strings.Split(m.VFSOptions, ","), "ro") || err != nil && d.cfg.Options.ReadOnly
}
