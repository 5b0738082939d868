package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A mount describes the mount of a daemon: whether it answers, has ended, or was detached.
type mount struct {
	server            *fusefs.Server // set by attachMount
	store, mountpoint string         // as in the mount table
	log               *slog.Logger

	answering chan struct{} // closed when the mount answers
	ending    atomic.Bool   // the daemon is ending
	// unmounted is closed when the kernel has ended the mount. The function endDetached closes detached: then the
	// daemon ends, although another mount namespace still has a copy of the mount (see copyGrace).
	unmounted, detached chan struct{}
	endDetached         func()
	// umountMu is locked during umount(2). Even after the channel unmounted is closed, umount(2) takes some time, in
	// which the kernel drops the inodes.
	umountMu     sync.Mutex
	deviceNumber atomic.Pointer[string] // nil until the method device has found it in the mount table
}

func newMount(store, mountpoint string, log *slog.Logger) *mount {
	m := &mount{store: store, mountpoint: mountpoint, log: log, answering: make(chan struct{}), unmounted: make(chan struct{}), detached: make(chan struct{})}
	m.endDetached = sync.OnceFunc(func() {
		log.Warn("another mount namespace still has a copy of the mount; it ends now")
		close(m.detached)
	})

	return m
}

// serve answers the requests of the kernel in the background.
func (m *mount) serve() {
	go m.server.Serve()
	go func() {
		m.server.Wait()
		close(m.unmounted)
	}()
}

// isAnswering reports whether the mount answers.
func (m *mount) isAnswering() bool {
	select {
	case <-m.answering:
		return true
	default:
		return false
	}
}

// unmount unmounts the mount and waits for its end. If lazy is set, it detaches a mount that is in use.
func (m *mount) unmount(lazy bool) error {
	var err error
	if _, ok, merr := m.tableEntry(); ok || merr != nil { // without an entry in the mount table, umount(8) has already unmounted it
		m.umountMu.Lock()
		err = m.server.Unmount()
		m.umountMu.Unlock()
	}

	switch {
	case err == nil:
		select {
		case <-m.unmounted:
		case <-time.After(copyGrace):
			m.endDetached()
		}
		return nil

	case !errors.Is(err, unix.EBUSY):
		return errs.Fail(errs.ScriptKind(err), "%w", err)
	case !lazy:
		return errs.Fail(errs.Busy, "the mount at %s is in use", m.mountpoint)
	}

	if err := UnmountLazily(m.mountpoint); err != nil {
		return errs.Fail(errs.Failed, "cannot detach the mount at %s: %w", m.mountpoint, err)
	}

	return nil
}

// copyGrace is the time for which the daemon waits after umount(2) until the kernel has ended the mount. Then the
// daemon ends although another mount namespace, such as a container's, still has a copy of the mount. No
// acknowledged change is lost: all are in the journal.
const copyGrace = 2 * time.Second

// busyGrace is the time for which programs may keep a mount busy after a signal.
const busyGrace = 2 * time.Second

// forceUnmount unmounts. If this fails or takes longer than busyGrace, it detaches the mount, and waits a second
// busyGrace for the end of the mount.
func (m *mount) forceUnmount() {
	done := make(chan error, 1)
	go func() { done <- m.server.Unmount() }()
	var err error
	select {
	case err = <-done:
	case <-time.After(busyGrace):
		err = errors.New("it takes too long")
	}

	if err != nil {
		m.log.Warn("cannot unmount: detaching", "err", err)
		if err := UnmountLazily(m.mountpoint); err != nil {
			m.log.Warn("detach", "err", err)
		}
	}

	select {
	case <-m.unmounted:
	case <-time.After(busyGrace):
		// The connection ends with this process, and programs get ENOTCONN.
		m.log.Warn("programs still use the mount; it ends now")
	}
}

// programsIn returns the programs whose working directory or root directory is in one of the views. If rootOnly is
// set, only the root directory counts.
func (m *mount) programsIn(views []uint32, rootOnly bool) (out []service.Program) {
	mounts, err := locate.Mounts()
	entry, ok := locate.MountAt(mounts, m.mountpoint)
	if err != nil || !ok {
		return nil
	}

	links := locate.DirLinks
	if rootOnly {
		links = locate.RootLinks
	}

	for _, u := range locate.UsingProcesses(entry, links, func(ino uint64) bool {
		return slices.Contains(views, live.NodeID(ino).View())
	}) {
		out = append(out, service.Program{PID: u.PID, Command: u.Command})
	}

	return out
}

// awaitReady waits until the mount answers. It fails if the mount is ending.
func (m *mount) awaitReady(ctx context.Context) error {
	select {
	case <-m.answering:
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.ending.Load() {
		return errs.Fail(errs.Busy, "the mount at %s is ending", m.mountpoint)
	}
	return nil
}

// tableEntry returns the mount in the mount table of this process; ok is false if it is not there.
func (m *mount) tableEntry() (entry locate.Mount, ok bool, err error) {
	mounts, err := locate.Mounts()
	if err != nil {
		return nil, false, err
	}
	entry, ok = locate.MountAt(mounts, m.mountpoint)
	return entry, ok && entry.Source == m.store, nil
}

// device returns the device number of the mount, "" while the mount is not in the mount table. A device
// number that was found once does not change.
func (m *mount) device() string {
	if known := m.deviceNumber.Load(); known != nil {
		return *known
	}

	entry, ok, err := m.tableEntry()
	if err != nil || !ok {
		return ""
	}

	device := locate.Device(entry)
	m.deviceNumber.Store(&device)

	return device
}

// isReadOnly reports whether the mount is read-only now. A remount can change this. If the mount table cannot be
// read, it returns fallback.
func (m *mount) isReadOnly(fallback bool) bool {
	entry, ok, err := m.tableEntry()
	return ok && slices.Contains(strings.Split(entry.VFSOptions, ","), "ro") || err != nil && fallback
}

// dropName drops the old name of a snapshot or fork, which was removed or renamed, from the kernel's cache. direct is
// set if the request did not come through the mount: then dropName may wait for the kernel.
func (m *mount) dropName(e events.Event, direct bool) {
	if !m.isAnswering() { // the kernel has no names yet
		return
	}

	switch e.Action {
	case "fork-deleted", "renamed-fork":
		m.server.DropName(e.Workspace, true, e.From, direct)
	case "removed", "expired", "renamed-snapshot":
		m.server.DropName(e.Workspace, false, e.From, direct)
	}
}
