package fusefs

import (
	"errors"
	"log/slog"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/fusefs/takeover"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/live"
)

// cacheTime is how long the kernel may trust an answer. Only requests of this mount and the daemon
// change the tree, and the daemon sends notices for its changes.
const cacheTime = 365 * 24 * time.Hour

// replies makes the answers to the kernel, and counts the references to nodes that the kernel gets by them.
type replies struct {
	forest      *live.Forest
	control     *control.Tree
	permissions *permissions
	lookups     *takeover.Lookups
	probes      *takeover.Probes
	parking     *parkingLot
	log         *slog.Logger
	// generation is the generation number of control files: see control.firstFileNumber.
	generation uint64
}

// nodeReader has the methods that the forest and the control tree share.
type nodeReader interface {
	GetAttr(id live.NodeID) (live.Attr, error)
	ReadAt(id live.NodeID, p []byte, off int64) (int, error)
	Readlink(id live.NodeID) (string, error)
	Seek(id live.NodeID, off int64, whence int) (int64, error)
}

// treeOf returns the forest or the control tree, by the number of a node.
func (r *replies) treeOf(id live.NodeID) nodeReader {
	if control.IsNode(id) {
		return r.control
	}
	return r.forest
}

// splitTime splits a time (ns since 1970) into the fields of struct timespec.
func splitTime(t int64) (sec uint64, nsec uint32) {
	ts := filetime.Timespec(t)
	return uint64(ts.Sec), uint32(ts.Nsec)
}

func (r *replies) fillAttr(out *fuse.Attr, attr *live.Attr) {
	a := r.permissions.shownAttr(*attr)
	out.Ino = uint64(a.ID)
	out.Size = uint64(a.Size)
	out.Blocks = uint64(a.Blocks)
	out.Atime, out.Atimensec = splitTime(a.Atime)
	out.Mtime, out.Mtimensec = splitTime(a.Mtime)
	out.Ctime, out.Ctimensec = splitTime(a.Ctime)
	out.Mode = a.Mode
	out.Nlink = a.Nlink
	out.Uid, out.Gid = a.UID, a.GID
	out.Rdev = a.Rdev
	out.Blksize = 4096
}

// fillStatx is fillAttr for statx(2), which also has the time of birth.
func (r *replies) fillStatx(out *fuse.Statx, attr *live.Attr) {
	var a fuse.Attr
	r.fillAttr(&a, attr)
	out.Mask = unix.STATX_BASIC_STATS
	out.Blksize, out.Nlink = a.Blksize, a.Nlink
	out.Uid, out.Gid = a.Uid, a.Gid
	out.Mode = uint16(a.Mode)
	out.Ino, out.Size, out.Blocks = a.Ino, a.Size, a.Blocks
	out.Atime.Sec, out.Atime.Nsec = a.Atime, a.Atimensec
	out.Mtime.Sec, out.Mtime.Nsec = a.Mtime, a.Mtimensec
	out.Ctime.Sec, out.Ctime.Nsec = a.Ctime, a.Ctimensec
	out.RdevMajor, out.RdevMinor = unix.Major(uint64(a.Rdev)), unix.Minor(uint64(a.Rdev))
	if attr.Btime != 0 {
		out.Mask |= unix.STATX_BTIME
		out.Btime.Sec, out.Btime.Nsec = splitTime(attr.Btime)
	}
}

// fillEntry fills an answer with a node of the forest, and counts one more reference of the kernel to the node. dir is
// the directory in which the node was looked up, or takeover.SeveralDirs.
func (r *replies) fillEntry(out *fuse.EntryOut, dir live.NodeID, a *live.Attr) {
	if t, ok := r.capturedAt(a.ID); ok {
		a.Mtime = t
	}

	out.NodeId = uint64(a.ID)
	r.fillAttr(&out.Attr, a)
	out.SetEntryTimeout(cacheTime)
	out.SetAttrTimeout(cacheTime)
	r.lookups.Add(a.ID, dir)
}

// answerResent answers a request that an earlier daemon carried out, with the node that the request created.
// For a node without a name (op is opTmpfile) it calls Disinherit, so that the node is not probed. Until the
// kernel has this answer, it does not hold the node, and it has locked no directory that a probe could wait
// for (see takeover.Probes).
func (r *replies) answerResent(op string, h *fuse.InHeader, id live.NodeID, out *fuse.EntryOut) fuse.Status {
	a, err := r.forest.GetAttr(id)
	if err != nil {
		return r.status(op, id, err)
	}
	if op == opTmpfile {
		r.lookups.Disinherit(id)
	}

	r.fillEntry(out, live.NodeID(h.NodeId), &a)
	r.probes.Settle([]live.NodeID{id})

	return fuse.OK
}

// attrTimeout is how long the kernel may trust the attributes of a control node. The kernel may not cache the
// attributes of a control file, so every open sees the present size.
func attrTimeout(id live.NodeID) time.Duration {
	if control.IsDir(id) {
		return control.BriefCacheTime
	}
	return 0
}

// fillControlEntry fills an answer with a node that was found or created in the control tree, or returns the
// status of err. The node may be the root of a workspace or snapshot.
func (r *replies) fillControlEntry(op string, dir live.NodeID, e control.Entry, err error, out *fuse.EntryOut) fuse.Status {
	if err != nil {
		return r.status(op, dir, err)
	}

	if control.IsNode(e.Attr.ID) {
		out.NodeId = uint64(e.Attr.ID)
		r.fillAttr(&out.Attr, &e.Attr)
		out.SetAttrTimeout(attrTimeout(e.Attr.ID))
		if !control.IsDir(e.Attr.ID) {
			out.Generation = r.generation
		}
	} else {
		r.fillEntry(out, dir, &e.Attr)
	}

	out.SetEntryTimeout(e.Timeout)
	return fuse.OK
}

// attr returns the attributes of a node of the forest or the control tree, and how long the kernel may trust
// them.
func (r *replies) attr(id live.NodeID) (live.Attr, time.Duration, error) {
	a, err := r.treeOf(id).GetAttr(id)
	if control.IsNode(id) {
		return a, attrTimeout(id), err
	}
	if t, ok := r.capturedAt(id); ok {
		a.Mtime = t
	}

	return a, cacheTime, err
}

// capturedAt returns the time (ns since 1970) of the snapshot whose root the node is, so that
// `ls -lt .snapshots` shows the snapshots in the order of their times.
func (r *replies) capturedAt(id live.NodeID) (int64, bool) {
	if id.Ino() != live.RootIno || id.View() == live.MainView {
		return 0, false
	}
	return r.control.CaptureTime(id.View())
}

// answerFailedSetAttr answers a SETATTR that failed with the error cause. In a read-only tree the answer is a
// success if the node has these attributes already: gVisor sets the owner of each directory that it has
// created, also in .snapshots.
func (r *replies) answerFailedSetAttr(id live.NodeID, s live.SetAttr, cause error, out *fuse.AttrOut) fuse.Status {
	if s.Size != nil || !errors.Is(cause, live.ErrReadOnly) && !errors.Is(cause, errs.Perm) {
		return r.status("setattr", id, cause)
	}

	a, timeout, err := r.attr(id)
	same := func(want *int64, present int64) bool { return want == nil || *want == present }
	if err != nil ||
		s.Mode != nil && (*s.Mode^a.Mode)&0o7777 != 0 || s.UID != nil && *s.UID != a.UID || s.GID != nil && *s.GID != a.GID ||
		!same(s.Atime, a.Atime) || !same(s.Mtime, a.Mtime) || !same(s.Ctime, a.Ctime) {
		return r.status("setattr", id, cause)
	}

	r.fillAttr(&out.Attr, &a)
	out.SetTimeout(timeout)

	return fuse.OK
}
