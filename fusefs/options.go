package fusefs

import (
	"context"
	"log/slog"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Options says what to mount, where and how.
type Options struct {
	Store      *snapshot.Store
	Mountpoint string

	// AllowOther lets users other than the one who mounts see the workspace.
	AllowOther bool
	// ReadOnly makes the kernel refuse every change.
	ReadOnly bool
	// Dev and Suid let device files and set-user-ID programs work; without
	// them the mount is nodev and nosuid.
	Dev, Suid bool
	// SnapdirVisible lists `.snapshots` and `.forks` in the root.
	SnapdirVisible bool
	// ACL turns POSIX access control lists on.
	ACL bool
	// Timed keeps how long requests take, see Server.Latencies.
	Timed bool
	// Debug logs every request.
	Debug  bool
	Logger *slog.Logger

	// Control carries what control files need from above this package.
	Control Control
	// Nudge is a time (ns since 1970) that stands for none: who sets a file's
	// mtime, and nothing else, to it changes nothing, but the kernel tells those
	// who watch the file (inotify) that it was modified. Only positive ones
	// count.
	Nudge int64
	// Invalidated, if set, is told of a change from inside when the kernel
	// knows of it.
	Invalidated func(live.Invalidation)
	// OnEvent, if set, is called after every change made through the mount,
	// on the goroutine that answers the request, so it must be cheap.
	OnEvent func(Event)
}

// Control is how control files reach what lies above this package. A nil
// function makes its file absent, or refuse with ENOSYS.
type Control struct {
	// Export writes a snapshot to git: line is what was written to `export`,
	// result one JSON object. The context of this and of Diff ends when nobody
	// waits for the result any more.
	Export func(ctx context.Context, ws *snapshot.Workspace, line string, c live.Caller) (result []byte, err error)
	// Diff renders `diff@a` and `diff@a..b` (b is "" for the present state),
	// or, with stat, `stat@a` and `stat@a..b`.
	Diff func(ctx context.Context, ws *snapshot.Workspace, a, b string, stat bool) ([]byte, error)
	// Log opens the event log as it is now; it may only grow afterwards.
	Log func(ws *snapshot.Workspace) (Log, error)
	// Status renders `status`; nil: the workspace's own status.
	Status func(ws *snapshot.Workspace) ([]byte, error)
}

// A Log is a file that only grows.
type Log interface {
	// Size returns the length in bytes.
	Size() int64
	// ReadAt is that of io.ReaderAt.
	ReadAt(p []byte, off int64) (int, error)
	// Stale tells that the beginning is kept no more: who opens the file anew
	// should see one that begins later.
	Stale() bool
}

// An Action is what a process did to a node.
type Action string

// The actions.
const (
	Created  Action = "created"
	Modified Action = "modified"
	Deleted  Action = "deleted"
	Renamed  Action = "renamed"
)

// An Event is one change made through the mount.
type Event struct {
	Caller live.Caller
	Action Action
	// Node is what was changed; of a rename, what it replaced, if anything.
	Node live.NodeID
	// Parent and Name are where it was created, deleted or renamed from. A
	// modification has only the node: a file does not know by which of its
	// names it was opened.
	Parent live.NodeID
	Name   string
	// NewParent and NewName are where it was renamed to.
	NewParent live.NodeID
	NewName   string
}

func (fs *filesystem) event(e Event) {
	if e.Action != Deleted {
		fs.removals.changed(max(e.Node.View(), e.Parent.View()))
	}
	if fs.opts.OnEvent != nil {
		fs.opts.OnEvent(e)
	}
}
