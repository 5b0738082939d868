package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// eventsDir is the directory of the event log in the store.
const eventsDir = "events"

// maxEventPath is the maximum length in bytes of the paths that are built for events. It is larger than
// events.MaxPathBytes by one, so that package events notices longer paths and shortens them.
const maxEventPath = events.MaxPathBytes + 1

// An eventRecorder records the changes of a store in the event log.
type eventRecorder struct {
	log         *events.Log
	logDir      string
	store       *snapshot.Store
	logger      *slog.Logger
	lastWritten atomic.Uint64 // the node of the last recorded write, see recordMountEvent
}

func newEventRecorder(dir string, s *snapshot.Store, logger *slog.Logger) *eventRecorder {
	r := &eventRecorder{logDir: filepath.Join(dir, eventsDir), store: s, logger: logger}
	r.log = events.New(r.logDir, events.Options{FS: s.FS(), Logger: logger, Resolve: r.resolveNode, TenantOf: r.tenantOf})
	return r
}

// load reads the event log. Until it has succeeded, events stay in memory.
func (r *eventRecorder) load() error {
	if err := loadEventLog(r.log, r.logDir, r.store.FS(), r.logger); err != nil {
		return err
	}

	// If the last daemon was killed, it may not have removed the logs of ended forks.
	for _, view := range r.log.Views() {
		if _, ok := r.store.Workspace(view); !ok {
			r.removeViewLog(view)
		}
	}

	return nil
}

// tenantOf returns the view of the outermost fork around the workspace of a view. For a fork of main, that is the fork
// itself. For main, tenantOf returns 0.
func (r *eventRecorder) tenantOf(view uint32) (tenant uint32) {
	ws, _ := r.store.Workspace(view)
	for ws != nil && ws.IsFork() {
		tenant, ws = ws.View(), ws.Parent()
	}
	return tenant
}

// loadEventLog reads the event log. A damaged log is renamed, and a new one begins: the event log is
// not part of the stored data, so a mount must not fail because of it.
func loadEventLog(l *events.Log, dir string, disk vfs.FS, log *slog.Logger) error {
	err := l.Load()
	if err == nil || errs.IsShortage(err) || errors.Is(err, fs.ErrPermission) {
		return err
	}

	renamed := fmt.Sprintf("%s.damaged-%d", dir, time.Now().UnixNano())
	if rerr := disk.Rename(dir, renamed); rerr != nil {
		return errors.Join(err, rerr)
	}

	log.Error("the event log cannot be read; a new one begins", "err", err, "old", renamed)

	return l.Load()
}

func (r *eventRecorder) removeViewLog(view uint32) {
	if err := r.log.Remove(view); err != nil {
		r.logger.Warn("removing the events of a deleted fork", "err", err)
	}
}

func (d *Daemon) dropDeadExports() {
	d.background.goLoggingError("removing the exports of deleted forks", d.service.Exports.Drop)
}

// resolveNode returns the present path and size of a node. Package events calls it some time after the event of the
// node was recorded.
func (r *eventRecorder) resolveNode(view uint32, node uint64) (p string, size int64, ok bool) {
	id := live.Node(view, node)
	p, err := r.store.Forest().Path(id, maxEventPath)
	if err != nil {
		return "", 0, false
	}
	if a, err := r.store.Forest().GetAttr(id); err == nil {
		size = a.Size
	}

	return p, size, true
}

// recordMountEvent records a change through the mount, while the request waits. Of several successive writes to a file,
// only the first one is recorded with the path.
func (r *eventRecorder) recordMountEvent(e fusefs.Event) {
	out := events.Event{
		Action: e.Action, Workspace: e.Node.View(), Node: e.Node.Ino(), UID: e.Caller.UID, PID: e.Caller.PID, Actor: e.Caller.Actor,
	}

	switch e.Action {
	case events.Modified:
		if last := r.lastWritten.Swap(uint64(e.Node)); last != uint64(e.Node) {
			out.Path, _ = r.store.Forest().Path(e.Node, maxEventPath)
		}
	case events.Created, events.Deleted:
		out.Path = r.pathOf(e.Parent, e.Name)
	case events.Renamed:
		out.Workspace, out.Node = e.Parent.View(), 0
		if a, err := r.store.Forest().Lookup(e.NewParent, e.NewName); err == nil {
			out.Node = a.ID.Ino()
		}
		out.From = r.pathOf(e.Parent, e.Name)
		out.Path = r.pathOf(e.NewParent, e.NewName)
	}

	r.log.Record(out)
}

func (r *eventRecorder) pathOf(dir live.NodeID, name string) string {
	p, err := r.store.Forest().Path(dir, maxEventPath)
	if err != nil {
		return ""
	}
	return path.Join(p, name)
}

// recordStoreEvent records an event that the store reports, such as a snapshot or a path that a restore changed. It also
// removes the data that an ended or deleted fork leaves behind. c is the caller of the operation.
func (d *Daemon) recordStoreEvent(e events.Event, c actors.Caller) {
	if e.Action == "ended" {
		d.background.goGuarded("removing events", func() { d.events.removeViewLog(e.Workspace) })
		return
	}
	if e.Action == "fork-deleted" {
		d.dropDeadExports()
	}

	d.mount.dropName(e, c.ViaSocket)

	if e.Action != events.Captured {
		e.Path = cmp.Or(e.Path, ".")
		d.events.log.Record(e)
		return
	}

	span := d.events.log.RecordCapture(e)
	// The caller of the snapshot does not wait for the counting.
	d.background.goGuarded("counting events", func() { d.events.storeEventCounts(e.Workspace, e.From, span) })
}

// storeEventCounts stores, in the information about a snapshot, the numbers of the events since the snapshot before it.
func (r *eventRecorder) storeEventCounts(view uint32, name string, span events.Span) {
	ws, ok := r.store.Workspace(view)
	if !ok {
		return
	}

	err := ws.Snapshots().Amend(name, func(i *info.Info) {
		i.FirstEvent, i.LastEvent, i.Counts = span.First, span.Last, span.Counts
	})
	if err != nil {
		// The snapshot was deleted before its events were counted.
		r.logger.Debug("counting the events of a snapshot", "snapshot", name, "err", err)
	}
}
