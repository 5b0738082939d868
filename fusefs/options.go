package fusefs

import (
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Flags are options of a mount that are on or off.
type Flags struct {
	AllowOther     bool // users other than the owner of the mount see the workspace
	ReadOnly       bool // the kernel refuses every change
	Dev, Suid      bool // device files and set-user-ID programs work
	NoExec         bool // programs cannot be executed
	SnapdirVisible bool // `.snapshots` and `.forks` are listed in the root
	ACL            bool // POSIX access control lists
	NoXattr        bool // the kernel never asks for extended attributes; there are none
	// Handles lets programs open nodes by their numbers (open_by_handle_at(2)), also nodes
	// outside of the directory that a program was given. Without it, kernels before Linux 6.9
	// still open cached nodes so. With it, overlayfs finds the lower file of a copied one by
	// its number. From Linux 6.16 on the kernel then takes that node for outdated (it has no
	// epoch), and stat(2) fails with ESTALE.
	Handles bool
	Debug   bool // every request is logged
}

// MountFlags returns those that mount(2) knows.
func (f Flags) MountFlags() (flags uintptr) {
	for flag, on := range map[uintptr]bool{unix.MS_NOSUID: !f.Suid, unix.MS_NODEV: !f.Dev, unix.MS_NOEXEC: f.NoExec, unix.MS_RDONLY: f.ReadOnly} {
		if on {
			flags |= flag
		}
	}
	return flags
}

// Options says what to mount, where and how.
type Options struct {
	Store      *snapshot.Store
	Mountpoint string // absolute

	Flags
	Ids *Ids // nil where the kernel accepts all

	// OnAnswer, if set, is called for each request, so it must be cheap.
	OnAnswer func(Answered)
	Logger   *slog.Logger // not nil

	// Control are the options of the control tree. Mount sets those that depend on the mount.
	Control control.Options
	// Nudge, if positive, is an mtime (ns since 1970) with a special meaning: to set a file's
	// mtime to it, and nothing else, changes nothing, but inotify reports a modification.
	Nudge int64
	// Changed, if set, is called after the kernel dropped names that the daemon changed, with
	// those of them in directories that may be watched.
	Changed func([]live.Entry)
	// Kept is set if another process keeps the device: a Connection can be taken over.
	Kept bool
	// Resent, if set, is called when a request that the kernel sent again is to be carried
	// out, and when it was answered.
	Resent func(unique uint64, answered bool)
	// Poison are such requests that are answered with EIO instead.
	Poison []uint64
	// OnEvent, if set, is called after every change made through the mount,
	// on the goroutine that answers the request, so it must be cheap.
	OnEvent func(Event)
}

// An Event is one change made through the mount.
type Event struct {
	Caller actors.Caller
	Action string // events.Created, Modified, Deleted or Renamed
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
	if e.Action != events.Deleted {
		fs.removals.changed(max(e.Node.View(), e.Parent.View()))
	}
	if fs.opts.OnEvent != nil {
		fs.opts.OnEvent(e)
	}
}
