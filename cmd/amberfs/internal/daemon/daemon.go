package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/takeover/keeper"
	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// A Daemon is a running daemon: the store and its parts that serve it.
type Daemon struct {
	cfg              Config
	started          time.Time
	log              *slog.Logger
	logFile          *logFile
	store            *snapshot.Store
	mount            *mount
	service          *service.Service
	socket           *service.Server
	metrics          *metrics
	events           *eventRecorder
	remoteConnection *service.Connection // to the remotes
	inotify          *inotifyReporter
	background       *background
	sharedMount      sharedMount
	crashState       crashState
}

// Run starts a daemon and returns when the store is closed. If the start fails, it reports the error to s and
// returns it.
func Run(ctx context.Context, cfg Config, s MessageFunc) error {
	unix.Umask(ownerOnlyUmask)
	limitMemory()

	// Signals are caught before another process can find the daemon, so that no signal is lost.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if cfg.LogTo == nil { // SIGHUP means that the terminal was closed, and this daemon has none
		signal.Ignore(unix.SIGHUP)
	}
	defer signal.Stop(signals)

	d, err := startDaemon(ctx, cfg, s)
	if err != nil {
		return failStart(&cfg, s, err)
	}

	time.AfterFunc(firstJoinTimeout, func() { d.endIfUnused() }) // ends the daemon if the `run` that started it was killed before it joined
	time.AfterFunc(fillSyncDelay, func() {
		d.background.goLoggingError("writing the copy to disk", func(context.Context) error { return d.store.Sync() })
	})
	s(Message{Ready: &Ready{Store: d.cfg.Store, Mountpoint: d.cfg.Mountpoint, PID: os.Getpid(), Created: d.store.IsNewOrUnfilled()}})
	d.notifyServiceManager(systemd.SdNotifyReady)
	d.cfg.Keeper.Send(keeper.Message{Ready: true})

	return d.waitForEnd(signals)
}

// fillSyncDelay is how long the daemon of a new copy waits before it syncs the copy to the disk. So a short run that
// keeps nothing writes little to the disk.
const fillSyncDelay = time.Second

// ownerOnlyUmask makes new files of this process and its libraries accessible to their owner alone.
const ownerOnlyUmask = 0o077

// failStart reports why a daemon does not become ready, and returns the error for the end of Run. If the
// keeper holds the connection to the kernel, the daemon ends as if it had been killed: it writes, removes
// and releases nothing, and the keeper starts another daemon.
func failStart(cfg *Config, s MessageFunc, err error) error {
	if cfg.Keeper.KeeperHasConnection() {
		return cfg.Keeper.Fail(err)
	}
	s(Message{Error: errs.ErrorOf(err)})
	return err
}

// startDaemon starts the parts in order. If one fails, and no keeper holds the connection to the kernel, it
// stops the others and removes a new store.
func startDaemon(ctx context.Context, cfg Config, s MessageFunc) (_ *Daemon, err error) {
	inherited := cfg.inheritedConnection()
	if inherited != nil {
		cfg.Store, cfg.Mountpoint = inherited.Store, inherited.Mountpoint
	} else if err := checkConfig(&cfg, s); err != nil {
		return nil, err
	}

	if cfg.Shared && inherited == nil && mounts.Privileged() { // an unprivileged daemon has no mount namespace of its own: fusermount3 makes its mount
		if err := IsolateMounts(); err != nil {
			return nil, err
		}
	}

	d := &Daemon{cfg: cfg, started: time.Now(), logFile: newLogFile(cfg.LogTo), crashState: crashState{keeper: cfg.Keeper}}
	level := slog.LevelInfo
	if cfg.Options.Debug {
		level = slog.LevelDebug
	}

	d.log = slog.New(slog.NewTextHandler(d.logFile, &slog.HandlerOptions{Level: level}))
	d.mount = newMount(cfg.Store, cfg.Mountpoint, d.log)
	d.background = newBackground(d.log)
	if err := os.Chdir("/"); err != nil {
		return nil, fmt.Errorf("leaving the working directory: %w", err)
	}
	if inherited != nil {
		d.background.retryInBackground("opening the log", func() error { return d.logFile.open(cfg.Store) })
	}

	var undoSteps []func()
	defer func() {
		if err != nil && !cfg.Keeper.KeeperHasConnection() {
			for i := len(undoSteps) - 1; i >= 0; i-- {
				undoSteps[i]()
			}
		}
	}()

	d.remoteConnection = &service.Connection{StartSnapshot: cfg.Remote, AllowEmpty: cfg.OrEmpty, Timeout: cfg.Patience(), Log: d.log}
	d.store, err = openStore(cfg.Store, snapshot.Options{
		FillSource: cfg.From, Logger: d.log, Lock: cfg.inheritedLock(), Takeover: inherited != nil, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), CloseTime: maxStoreCloseTime, MemoryBytes: memoryShare(), LowMemory: inherited != nil && cfg.Keeper.Frugal,
		Connect: d.remoteConnection.ConnectFunc(ctx),
	})
	if err != nil {
		return nil, explainOpenError(cfg.Store, err)
	}
	if err = failPoint("opened"); err != nil {
		return nil, err
	}
	d.inotify = newInotifyReporter(d.store, d.mount, d.log)
	if inherited != nil {
		d.sharedMount.madeDirs, d.inotify.nudgeMtime = inherited.MadeDirs, inherited.NudgeMtime
	}

	undoSteps = append(undoSteps, func() { d.removeMountpoints(); d.store.GiveUp(); d.background.cancel(); d.remoteConnection.Close() })
	if cfg.Shared && inherited == nil {
		d.makeMountpoint(cfg.Mountpoint)
	}

	if inherited == nil {
		if err = d.logFile.open(cfg.Store); err != nil {
			return nil, err
		}
	}

	undoSteps = append(undoSteps, d.logFile.close)
	d.log.Info("start", "version", cfg.Version, "pid", os.Getpid(), "store", cfg.Store, "mountpoint", cfg.Mountpoint)

	if inherited == nil {
		if err = fillStore(ctx, d.store, cfg, s); err != nil {
			return nil, service.WithKind(err)
		}
	}

	d.events = newEventRecorder(cfg.Store, d.store, d.log)
	if inherited != nil {
		d.background.retryInBackground("reading the event log", d.events.load)
	} else if err = d.events.load(); err != nil {
		return nil, err
	}

	undoSteps = append(undoSteps, func() { d.events.log.Close() })
	d.service = service.New(d.serviceConfig())
	d.store.Hooks.OnEvent(d.recordStoreEvent) // after service is set: when a fork expires, recordStoreEvent removes its exports
	if err = d.serveMetrics(); err != nil {
		return nil, err
	}

	undoSteps = append(undoSteps, d.metrics.close)
	// The socket is made before the mount, so that every visible mount has a socket. Requests on the socket wait
	// until the mount answers.
	if d.socket, err = d.listenOnSocket(); err != nil {
		return nil, err
	}

	undoSteps = append(undoSteps, func() { d.socket.Close() })
	if err = failPoint("listening"); err != nil {
		return nil, err
	}
	if err = d.store.SetMountpoint(cfg.Mountpoint); err != nil && inherited == nil {
		return nil, fmt.Errorf("writing down the mount point: %w", err)
	}
	if err = d.attachMount(); err != nil {
		return nil, errs.Fail(errs.ScriptKind(err), "%w", err)
	}
	if err = failPoint("attached"); err != nil {
		return nil, err
	}

	d.mount.serve()
	d.dropDeadExports() // drops the exports of forks that ended shortly before the last daemon was killed
	d.background.goLoggingError("erasing what was forgotten", d.service.EraseForgotten)
	d.background.goGuarded("remotes", func() { d.remoteConnection.Run(d.background.ctx, d.cfg.Options.Prefetch) })
	d.background.goGuarded("pushes of the policy", func() { d.service.Backups.Run(d.background.ctx) })
	close(d.mount.answering)
	d.log.Info("mounted", "took", time.Since(d.started).Round(time.Millisecond))
	if inherited != nil {
		d.finishTakeover()
	}

	return d, failPoint("serving")
}

// waitForEnd waits for the end of the mount or for a signal, and ends the daemon in order.
func (d *Daemon) waitForEnd(signals <-chan os.Signal) error {
	signalled := false
	select {
	case <-d.mount.unmounted:
		d.mount.umountMu.Lock() // wait for umount(2), so that its caller is answered before the socket closes
		d.log.Info("unmounted")
		d.mount.umountMu.Unlock()
	case <-d.mount.detached:
	case sig := <-signals:
		d.log.Info("signal", "signal", sig.String())
		signalled = true
	}

	d.notifyServiceManager(systemd.SdNotifyStopping)
	d.cfg.Keeper.Send(keeper.Message{Ending: true})
	d.mount.ending.Store(true)
	d.inotify.close()
	d.store.Forest().Freezer.Thaw()
	if signalled {
		time.AfterFunc(busyGrace, d.remoteConnection.HangUp)
		d.mount.forceUnmount()
	}

	return d.close()
}

// close ends the parts of the daemon in order, the store last.
func (d *Daemon) close() error {
	d.metrics.close()
	err := d.socket.Close()
	if eerr := d.events.log.Close(); eerr != nil {
		d.log.Warn("closing the event log", "error", eerr) // only a warning, because no command waits for the event log
	}

	d.background.cancel()
	d.background.close()
	defer time.AfterFunc(busyGrace, d.remoteConnection.HangUp).Stop()

	d.removeMountpoints()

	if cerr := d.store.Close(); cerr != nil {
		d.log.Error("closing the store", "err", cerr, guard.Stack(cerr))
		err = errors.Join(err, cerr)
	}

	d.remoteConnection.Close()
	d.log.Info("end", "after", time.Since(d.started).Round(time.Second))
	d.logFile.close()

	return err
}

// unmount unmounts for `umount`, or after the last `run`. If lazy is set, it detaches a mount that is in use.
func (d *Daemon) unmount(lazy bool) error {
	if err := d.store.Sync(); err != nil {
		d.log.Error("sync before unmounting", "err", err)
		if !lazy {
			return service.WithKind(fmt.Errorf("writing to disk: %w", err))
		}
	}

	d.store.Forest().Freezer.Thaw()
	d.inotify.stopProcess()

	return d.mount.unmount(lazy)
}

func (d *Daemon) serviceConfig() service.Config {
	return service.Config{
		Store: d.store, Events: d.events.log, Remotes: d.remoteConnection.Remotes, Log: d.log,
		Mount: service.Mount{
			Point: d.cfg.Mountpoint, Options: d.cfg.Options.String(), Device: d.mount.device, WaitReady: d.mount.awaitReady, ProgramsInside: d.mount.programsIn, Umount: d.unmountForCommand,
			ReadOnly: func() bool { return d.mount.isReadOnly(d.cfg.Options.ReadOnly) },
			Requests: func() map[string]uint64 { return d.mount.server.Counters() }, StaleNames: func() int64 { return d.mount.server.StaleNames() },
		},
		Daemon: service.Daemon{Version: d.cfg.Version, Started: d.started, Survival: d.crashState.survival, Upgrade: d.upgrade},
		Pools: map[service.Cost]*budget.Budget{
			service.ListMemory: budget.New(memoryShare() / 2), service.TextMemory: budget.New(memoryShare() / 2), service.GitMemory: budget.New(memoryShare() / 2),
		},
		RequestDrop: d.dropDeadExports,
		JoinHooks:   service.JoinHooks{Join: d.joinMount, Leave: d.leaveMount, Hold: d.userHolder()}, FreezeHooks: freezeHooks(d.cfg.Keeper),
	}
}
