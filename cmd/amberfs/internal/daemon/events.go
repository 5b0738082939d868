package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

const eventsDir = "events"

// eventPath is the longest path that is built for an event: no event has a longer one.
const eventPath = events.MaxPath + 1

// openEvents opens the event log. In a takeover events wait until it can be opened.
func (d *Daemon) openEvents() error {
	dir := filepath.Join(d.cfg.Store, eventsDir)
	d.events = events.New(dir, events.Options{FS: d.store.FS(), Logger: d.log, Resolve: d.resolveNode, Share: d.tenant})
	load := func() error {
		if err := loadLog(d.events, dir, d.store.FS(), d.log); err != nil {
			return err
		}

		// A fork may have ended without a daemon left to remove its log.
		for _, view := range d.events.Views() {
			if _, ok := d.store.Workspace(view); !ok {
				d.removeEvents(view)
			}
		}

		return nil
	}
	if d.cfg.takesOver() != nil {
		d.again("reading the event log", load)
		return nil
	}

	return load()
}

// tenant is the fork of main that a workspace is, or is in; 0 is main.
func (d *Daemon) tenant(view uint32) (of uint32) {
	ws, _ := d.store.Workspace(view)
	for ws != nil && ws.IsFork() {
		of, ws = ws.View(), ws.Parent()
	}
	return of
}

// loadLog reads the event log. One that cannot be read is set aside, and another
// begun: it is no part of the stored data, and a mount does not fail for it.
func loadLog(l *events.Log, dir string, disk vfs.FS, log *slog.Logger) error {
	err := l.Load()
	if err == nil || errs.Shortage(err) || errors.Is(err, fs.ErrPermission) {
		return err
	}

	aside := fmt.Sprintf("%s.damaged-%d", dir, time.Now().UnixNano())
	if rerr := disk.Rename(dir, aside); rerr != nil {
		return errors.Join(err, rerr)
	}

	log.Error("the event log cannot be read; a new one begins", "err", err, "old", aside)

	return l.Load()
}

func (d *Daemon) removeEvents(view uint32) {
	if err := d.events.Remove(view); err != nil {
		d.log.Warn("removing the events of a deleted fork", "err", err)
	}
}

func (d *Daemon) dropExports() {
	if err := d.service.DropExports(d.life); err != nil && d.life.Err() == nil {
		d.log.Warn("removing the exports of deleted forks", "err", err)
	}
}

// resolveNode finds the present path and size of a node, some time after the
// event that it is asked for.
func (d *Daemon) resolveNode(view uint32, node uint64) (p string, size int64, ok bool) {
	id := live.Node(view, node)
	p, err := d.store.Forest().Path(id, eventPath)
	if err != nil {
		return "", 0, false
	}
	if a, err := d.store.Forest().GetAttr(id); err == nil {
		size = a.Size
	}

	return p, size, true
}

// mountEvent records a change through the mount, while the request waits. A file that is
// written repeatedly is looked up once.
func (d *Daemon) mountEvent(e fusefs.Event) {
	out := events.Event{
		Action: e.Action, Workspace: e.Node.View(), Node: e.Node.Ino(), UID: e.Caller.UID, PID: e.Caller.PID, Actor: e.Caller.Actor,
	}

	switch e.Action {
	case events.Modified:
		if last := d.written.Swap(uint64(e.Node)); last != uint64(e.Node) {
			out.Path, _ = d.store.Forest().Path(e.Node, eventPath)
		}
	case events.Created, events.Deleted:
		out.Path = d.pathOf(e.Parent, e.Name)
	case events.Renamed:
		out.Workspace, out.Node = e.Parent.View(), 0
		if a, err := d.store.Forest().Lookup(e.NewParent, e.NewName); err == nil {
			out.Node = a.ID.Ino()
		}
		out.From = d.pathOf(e.Parent, e.Name)
		out.Path = d.pathOf(e.NewParent, e.NewName)
	}

	d.events.Record(out)
}

func (d *Daemon) pathOf(dir live.NodeID, name string) string {
	p, err := d.store.Forest().Path(dir, eventPath)
	if err != nil {
		return ""
	}
	return path.Join(p, name)
}

// storeEvent records an event of a workspace, and of each path of a restore.
func (d *Daemon) storeEvent(e events.Event, c actors.Caller) {
	if e.Action == "ended" {
		d.later("removing events", func() { d.removeEvents(e.Workspace) })
		d.later("removing exports", d.dropExports)
		return
	}

	d.forgetName(e, c.Direct)

	if e.Action != events.Captured {
		e.Path = cmp.Or(e.Path, ".")
		d.events.Record(e)
		return
	}

	span := d.events.Captured(e)
	// The caller does not wait for it.
	d.later("counting events", func() { d.countEvents(e.Workspace, e.From, span) })
}

// forgetName removes the name of what no longer exists from the kernel's cache.
func (d *Daemon) forgetName(e events.Event, direct bool) {
	select {
	case <-d.up:
	default:
		return // there was no search yet
	}

	switch e.Action {
	case "fork-deleted", "renamed-fork":
		d.mount.DropName(e.Workspace, true, e.From, direct)
	case "removed", "expired", "renamed-snapshot":
		d.mount.DropName(e.Workspace, false, e.From, direct)
	}
}

// later runs fn in the background. Only the end of the daemon waits for it.
func (d *Daemon) later(what string, fn func()) {
	d.background.start(func() { guard.Call(d.log, what, fn) })
}

// background is what runs beside the requests. The store takes snapshots, and tells of
// them, until it is closed: what comes after close is not started.
type background struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

func (b *background) start(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Go(fn)
	}
}

// close returns when all have ended.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

// countEvents writes down with a snapshot what happened since the one before.
func (d *Daemon) countEvents(view uint32, name string, span events.Span) {
	ws, ok := d.store.Workspace(view)
	if !ok {
		return
	}

	err := ws.Snapshots().Amend(name, func(i *info.Info) {
		i.FirstEvent, i.LastEvent, i.Counts = span.First, span.Last, span.Counts
	})
	if err != nil {
		d.log.Debug("counting the events of a snapshot", "snapshot", name, "err", err) // deleted meanwhile
	}
}
