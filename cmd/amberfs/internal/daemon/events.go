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

// eventsDir is the directory of the event log in the store.
const eventsDir = "events"

// eventPath is the length up to which paths are built for events. It is one more than an event may have,
// so that package events sees which paths are longer, and shortens them.
const eventPath = events.MaxPath + 1

// openEvents opens the event log. If the log cannot be read in a takeover, events stay in memory until
// it can.
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
		d.retry("reading the event log", load)
		return nil
	}

	return load()
}

// tenant returns the fork of main that is, or contains, the workspace of a view; 0 stands for main.
func (d *Daemon) tenant(view uint32) (tenant uint32) {
	ws, _ := d.store.Workspace(view)
	for ws != nil && ws.IsFork() {
		tenant, ws = ws.View(), ws.Parent()
	}
	return tenant
}

// loadLog reads the event log. A damaged log is renamed, and a new one begins: the event log is
// not part of the stored data, so a mount must not fail because of it.
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
	if err := d.service.Exports.Drop(d.life); err != nil && d.life.Err() == nil {
		d.log.Warn("removing the exports of deleted forks", "err", err)
	}
}

func (d *Daemon) eraseForgotten() {
	if err := d.service.EraseForgotten(d.life); err != nil && d.life.Err() == nil {
		d.log.Warn("erasing what was forgotten", "err", err)
	}
}

// resolveNode returns the present path and size of a node. Package events calls it some time
// after an event of the node.
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

// mountEvent records a change through the mount, while the request waits. The path of a file is looked up
// for the first of several writes in a row only.
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

// storeEvent records an event that the store reports, such as a snapshot or a path that a restore changed.
// c is the caller of the operation.
func (d *Daemon) storeEvent(e events.Event, c actors.Caller) {
	if e.Action == "ended" {
		d.later("removing events", func() { d.removeEvents(e.Workspace) })
		return
	}
	if e.Action == "fork-deleted" {
		d.later("removing exports", d.dropExports)
	}

	d.dropName(e, c.Direct)

	if e.Action != events.Captured {
		e.Path = cmp.Or(e.Path, ".")
		d.events.Record(e)
		return
	}

	span := d.events.Captured(e)
	// The caller of the snapshot does not wait for the counting.
	d.later("counting events", func() { d.countEvents(e.Workspace, e.From, span) })
}

// dropName drops the name of a snapshot or fork that an event removed or renamed from the kernel's cache.
// direct: the caller did not come through the mount, so it may wait.
func (d *Daemon) dropName(e events.Event, direct bool) {
	select {
	case <-d.up:
	default:
		return // the mount does not answer yet, so the kernel has no names
	}

	switch e.Action {
	case "fork-deleted", "renamed-fork":
		d.mount.DropName(e.Workspace, true, e.From, direct)
	case "removed", "expired", "renamed-snapshot":
		d.mount.DropName(e.Workspace, false, e.From, direct)
	}
}

// later runs fn in the background. Only the end of the daemon waits for it. what names fn in the log.
func (d *Daemon) later(what string, fn func()) {
	d.background.start(func() { guard.Call(d.log, what, fn) })
}

// background has the goroutines that belong to no request. The store takes snapshots, and reports
// events of them, until it is closed, so start may be called after close, and does nothing after it.
type background struct {
	mu      sync.Mutex // guards closed
	closed  bool
	running sync.WaitGroup
}

// start calls fn on a goroutine.
func (b *background) start(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Go(fn)
	}
}

// close returns when all goroutines have ended.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

// countEvents stores with a snapshot the numbers of the events since the snapshot before it.
func (d *Daemon) countEvents(view uint32, name string, span events.Span) {
	ws, ok := d.store.Workspace(view)
	if !ok {
		return
	}

	err := ws.Snapshots().Amend(name, func(i *info.Info) {
		i.FirstEvent, i.LastEvent, i.Counts = span.First, span.Last, span.Counts
	})
	if err != nil {
		// The snapshot was deleted before its events were counted.
		d.log.Debug("counting the events of a snapshot", "snapshot", name, "err", err)
	}
}
