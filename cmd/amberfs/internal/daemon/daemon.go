package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas/guard"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/events"
)

// Daemon owns one store and its mount.
type Daemon struct {
	cfg     Config
	log     *slog.Logger
	file    *logFile
	store   *snapshot.Store
	mount   *fusefs.Server
	control *control.Server
	metrics *metricsServer
	events  *events.Log
	// watchers are told of what a restore changed.
	watchers *watchers
	// written is the node that was written to last.
	written atomic.Uint64
	// background counts goroutines that work on the store.
	background sync.WaitGroup
	started    time.Time
	// up is closed when the mount answers.
	up chan struct{}
	// gone is closed when the mount has left the directory tree, but something
	// keeps it alive that cannot be waited for.
	gone     chan struct{}
	goneOnce sync.Once
	// ending is set once the mount is on its way out.
	ending atomic.Bool
}

// Run is the whole life of a daemon: it returns when the mount has ended and
// the store is closed. s hears how the start goes; a start that failed is
// told to s and returned. When ctx ends before the mount is ready, so does the
// start.
func Run(ctx context.Context, cfg Config, s Starter) error {
	private()
	memory, enough := context.WithCancel(ctx)
	defer enough()
	go boundMemory(memory)
	d, created, err := start(ctx, cfg, s)
	if err != nil {
		s.Failed(err)
		return err
	}
	s.Ready(Ready{Store: cfg.Store, Mountpoint: cfg.Mountpoint, PID: os.Getpid(), Created: created})
	return d.live()
}

// private makes what this process creates from now on its owner's alone, what
// libraries create in the store included.
func private() { unix.Umask(0o077) }

// start brings the parts up in order. When one fails, those before it are taken
// down again, and a store that was made for this mount goes away.
func start(ctx context.Context, cfg Config, s Starter) (_ *Daemon, created bool, err error) {
	d := &Daemon{cfg: cfg, started: time.Now(), file: newLog(cfg.LogTo), up: make(chan struct{}), gone: make(chan struct{})}
	level := slog.LevelInfo
	if cfg.Options.Debug {
		level = slog.LevelDebug
	}
	d.watchers = newWatchers(d)
	d.log = slog.New(slog.NewTextHandler(d.file, &slog.HandlerOptions{Level: level}))
	if err := os.Chdir("/"); err != nil {
		return nil, false, fmt.Errorf("leaving the working directory: %w", err)
	}
	_, serr := os.Lstat(filepath.Join(cfg.Store, "format"))
	created = errors.Is(serr, os.ErrNotExist)
	if !created && cfg.From != "" {
		return nil, false, filledAlready(cfg)
	}
	var undo []func()
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
		}
	}()
	_, derr := os.Lstat(cfg.Store)
	made := errors.Is(derr, os.ErrNotExist)
	d.store, err = openStore(cfg.Store, d.storeOptions())
	if err != nil {
		err = openError(cfg.Store, err)
		if created && fail.KindOf(err) != fail.Busy { // else it is another's
			removeStore(cfg.Store, made)
		}
		return nil, false, err
	}
	undo = append(undo, func() { d.store.Close() })
	// Another daemon may have made it, and ended, since it was looked for.
	created = d.store.Created()
	switch {
	case created:
		// Before it is closed: then it may be another's.
		undo = append(undo, func() { removeStore(cfg.Store, made) })
	case cfg.From != "":
		return nil, false, filledAlready(cfg)
	}
	if err = d.file.open(cfg.Store); err != nil {
		return nil, false, err
	}
	undo = append(undo, d.file.close)
	d.log.Info("start", "version", cfg.Version, "pid", os.Getpid(), "store", cfg.Store, "mountpoint", cfg.Mountpoint)
	if cfg.From != "" {
		if err = fill(ctx, d.store, cfg, s.Progress); err != nil {
			return nil, false, explain(err)
		}
	}
	removeLeftovers(cfg.Store)
	if err = d.openEvents(); err != nil {
		return nil, false, err
	}
	undo = append(undo, func() { d.events.Close() })
	if d.metrics, err = d.serveMetrics(); err != nil {
		return nil, false, err
	}
	undo = append(undo, d.metrics.close)
	// Before the mount, so that whoever sees the mount finds the socket; what
	// is asked there waits until the mount is up.
	d.control, err = control.Listen(cfg.Store, d.handle, d.log)
	if err != nil {
		return nil, false, err
	}
	undo = append(undo, func() { d.control.Close() })
	if err = d.store.SetMountpoint(cfg.Mountpoint); err != nil {
		return nil, false, fmt.Errorf("writing down the mount point: %w", err)
	}
	d.mount, err = fusefs.Mount(d.mountOptions())
	if err != nil {
		return nil, false, fail.New(fail.KindOf(err), "%w", err)
	}
	go d.mount.Serve()
	undo = append(undo, func() { _ = d.mount.Unmount() })
	if err = d.noExec(); err != nil {
		return nil, false, err
	}
	close(d.up)
	d.log.Info("mounted", "took", time.Since(d.started).Round(time.Millisecond))
	return d, created, nil
}

// removeStore takes away what a start that failed has made.
func removeStore(dir string, whole bool) {
	if whole {
		os.RemoveAll(dir)
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		os.RemoveAll(filepath.Join(dir, e.Name()))
	}
}

// live waits for the end, and ends in order.
func (d *Daemon) live() error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer signal.Stop(signals)
	unmounted := make(chan struct{})
	go func() {
		d.mount.Wait()
		close(unmounted)
	}()
	for over := false; !over; {
		select {
		case <-unmounted:
			over = true
		case <-d.gone:
			over = true
		case sig := <-signals:
			if sig == unix.SIGHUP && d.cfg.LogTo == nil {
				continue // it has no terminal that could go away
			}
			d.log.Info("signal", "signal", sig.String())
			d.endSoon(unmounted)
			over = true
		}
	}
	return d.close()
}

// graceTime is how long programs that keep a mount busy may go on after a
// signal ended the daemon.
const graceTime = 2 * time.Second

// endSoon unmounts, whoever uses the mount.
func (d *Daemon) endSoon(unmounted <-chan struct{}) {
	d.ending.Store(true)
	d.watchers.close()
	d.store.Forest().Thaw()
	done := make(chan error, 1)
	go func() { done <- d.mount.Unmount() }()
	select {
	case <-unmounted:
		return
	case err := <-done:
		if err == nil {
			return
		}
		d.log.Warn("the mount is in use: detaching it", "error", err)
	case <-time.After(graceTime):
		d.log.Warn("unmounting takes too long: detaching")
	}
	if err := Detach(d.cfg.Mountpoint); err != nil {
		d.log.Warn("detach", "error", err)
	}
	select {
	case <-unmounted:
	case <-time.After(graceTime):
		// The connection ends with this process. What was acknowledged is in
		// the journal; the programs left get ENOTCONN.
		d.log.Warn("programs still use the mount; it ends now")
	}
}

// close takes the parts down; it returns when all is on disk.
func (d *Daemon) close() error {
	d.ending.Store(true)
	d.watchers.close()
	d.store.Forest().Thaw()
	d.metrics.close()
	err := d.control.Close()
	if eerr := d.events.Close(); eerr != nil {
		d.log.Warn("closing the event log", "error", eerr) // it is no part of what was acknowledged
	}
	d.background.Wait()
	if cerr := d.store.Close(); cerr != nil {
		d.log.Error("closing the store", "error", cerr, guard.Stack(cerr))
		err = errors.Join(err, cerr)
	}
	d.log.Info("end", "after", time.Since(d.started).Round(time.Second))
	d.file.close()
	return err
}

// unmount is what `umount` asks for.
func (d *Daemon) unmount(lazy bool) error {
	if err := d.store.Forest().Sync(); err != nil {
		d.log.Error("sync before unmounting", "error", err)
		if !lazy {
			return explain(fmt.Errorf("writing to disk: %w", err))
		}
	}
	d.store.Forest().Thaw()
	d.watchers.pause()
	done := make(chan error, 1)
	go func() { done <- d.mount.Unmount() }()
	var err error
	for waiting, before := true, d.kernelWork(); waiting; {
		select {
		case err = <-done:
			waiting = false
		case <-time.After(copyTime):
			// A kernel that still writes pages back or forgets nodes is ending it.
			if now := d.kernelWork(); now != before {
				before = now
				continue
			}
			d.copied()
			return nil
		}
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EBUSY) {
		return fail.New(fail.KindOf(err), "%w", err)
	}
	if !lazy {
		return fail.New(fail.Busy, "the mount at %s is in use", d.cfg.Mountpoint)
	}
	if err := Detach(d.cfg.Mountpoint); err != nil {
		return fail.New(fail.Failed, "cannot detach the mount at %s: %w", d.cfg.Mountpoint, err)
	}
	return nil
}

// kernelWork grows with what the kernel does of itself when a mount ends.
func (d *Daemon) kernelWork() uint64 {
	n := d.mount.Counters()
	return n["FORGET"] + n["WRITE"]
}

// copyTime is how long the kernel gets to end a mount that it has unmounted.
const copyTime = 2 * time.Second

// copied ends a mount that was unmounted here, but of which another mount
// namespace (a container, say) got a copy when it was made. There is nobody to
// ask there; what was acknowledged is in the journal.
func (d *Daemon) copied() {
	mounts, err := locate.Mounts()
	if err != nil {
		return
	}
	if m, ok := locate.On(mounts, d.cfg.Mountpoint); ok && m.Source == d.cfg.Store {
		return // it is still there: the kernel is only slow
	}
	d.log.Warn("another mount namespace still has a copy of the mount; it ends now")
	d.goneOnce.Do(func() { close(d.gone) })
}
