package fusefs

import (
	"log/slog"

	"github.com/hanwen/go-fuse/v2/fuse"
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
	NoXattr        bool // no extended attributes; after the first request for one, the kernel sends no more
	// Handles lets programs open nodes by their numbers (open_by_handle_at(2)), also nodes outside the
	// directory that is visible to a program. overlayfs needs it to find the lower file of a copied-up file.
	// Its drawback: from Linux 6.16 on, stat(2) of a node that was found by its number fails with ESTALE,
	// because such a node has no epoch (INC_EPOCH). If Handles is off, kernels before Linux 6.9 still open
	// cached nodes by their numbers.
	Handles bool
	Debug   bool // every request is logged
}

// MountFlags returns the flags of mount(2), MS_NOSUID and so on, for the options that have one.
func (f Flags) MountFlags() (flags uintptr) {
	for flag, on := range map[uintptr]bool{unix.MS_NOSUID: !f.Suid, unix.MS_NODEV: !f.Dev, unix.MS_NOEXEC: f.NoExec, unix.MS_RDONLY: f.ReadOnly} {
		if on {
			flags |= flag
		}
	}
	return flags
}

// Options of a mount.
type Options struct {
	Store      *snapshot.Store
	Mountpoint string // absolute

	Flags
	Ids *Ids // nil if the kernel accepts all user and group ids

	// OnAnswer, if set, is called for each request, so it must be cheap.
	OnAnswer func(AnsweredRequest)
	Logger   *slog.Logger // not nil

	// Control are the options of the control tree. Mount sets Kernel and AllowOther in it.
	Control control.Options
	// NudgeMtime, if positive, is an mtime (ns since 1970) with a special meaning: a SETATTR that sets
	// only the mtime, to this time, changes no file, but inotify(7) reports a modification.
	NudgeMtime int64
	// OnNamesDropped, if set, is called after the kernel dropped names that the daemon changed. Its argument
	// has the names in directories that may have watchers.
	OnNamesDropped func([]live.Entry)
	// HasKeeper is set if another process, the keeper, also has the device open. Then another daemon can take the
	// mount over.
	HasKeeper bool
	// OnResent, if set, is called before a request that the kernel sent again is carried out, and
	// after it was answered. unique is the number of the request.
	OnResent func(unique uint64, answered bool)
	// Poison are the numbers of requests that are answered with EIO when the kernel sends them again.
	Poison []uint64
	// OnEvent, if set, is called after every change made through the mount,
	// on the goroutine that answers the request, so it must be cheap.
	OnEvent func(Event)
}

// isNudge reports whether a SETATTR only makes the kernel notify watchers, see NudgeMtime.
func (o *Options) isNudge(in *fuse.SetAttrIn) bool {
	return o.NudgeMtime > 0 && in.Valid&^(fuse.FATTR_FH|fuse.FATTR_LOCKOWNER) == fuse.FATTR_MTIME &&
		int64(in.Mtime)*1e9+int64(in.Mtimensec) == o.NudgeMtime
}

// An Event is one change made through the mount.
type Event struct {
	Caller actors.Caller
	Action string // events.Created, Modified, Deleted or Renamed
	// Node is the changed node. For a rename it is the node that the rename replaced, or 0.
	Node live.NodeID
	// Parent and Name are the directory and the name of the created or deleted node. For a rename, they are
	// the old directory and name. A modification has only Node, because the kernel does not say by which name
	// the file was opened.
	Parent live.NodeID
	Name   string
	// NewParent and NewName are the new directory and name, for a rename.
	NewParent live.NodeID
	NewName   string
}

// recordEvent records a change for the bookmarks of forks, and passes it to OnEvent.
func (fs *filesystem) recordEvent(e Event) {
	if e.Action != events.Deleted {
		fs.removals.recordChange(max(e.Node.View(), e.Parent.View()))
	}
	if fs.opts.OnEvent != nil {
		fs.opts.OnEvent(e)
	}
}
