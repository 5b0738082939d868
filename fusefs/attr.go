package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// cacheTime is how long the kernel may trust an answer. Only requests of this mount and the daemon
// change the tree, and the daemon sends notices for its changes.
const cacheTime = 365 * 24 * time.Hour

// splitTime splits a time (ns since 1970) into the fields of struct timespec.
func splitTime(t int64) (sec uint64, nsec uint32) {
	ts := filetime.Timespec(t)
	return uint64(ts.Sec), uint32(ts.Nsec)
}

func (fs *filesystem) fillAttr(out *fuse.Attr, attr *live.Attr) {
	a := fs.shownAttr(*attr)
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
func (fs *filesystem) fillStatx(out *fuse.Statx, attr *live.Attr) {
	var a fuse.Attr
	fs.fillAttr(&a, attr)
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

// fillEntry answers with a node of the tree that was looked up in the directory via, and counts one
// more reference of the kernel to the node.
func (fs *filesystem) fillEntry(out *fuse.EntryOut, via live.NodeID, a *live.Attr) {
	if t, ok := fs.capturedAt(a.ID); ok {
		a.Mtime = t
	}

	out.NodeId = uint64(a.ID)
	fs.fillAttr(&out.Attr, a)
	out.SetEntryTimeout(cacheTime)
	out.SetAttrTimeout(cacheTime)
	fs.lookups.add(a.ID, via)
}

func caller(h *fuse.InHeader) actors.Caller {
	return actors.Caller{UID: h.Uid, GID: h.Gid, PID: h.Pid}
}

// changer returns the caller of a change with its actor, and the forest that records its changes as
// changes of this actor.
func (fs *filesystem) changer(h *fuse.InHeader) (actors.Caller, *live.Forest) {
	c := caller(h)
	c.Actor = fs.opts.Store.Actors().Of(c.PID, c.UID, live.NodeID(h.NodeId).View())
	return c, fs.forest.As(c.Actor)
}

// changerOnce is changer for a change that must not be made twice: its record has the number of the
// request, so that the next daemon recognizes a request that was carried out.
func (fs *filesystem) changerOnce(h *fuse.InHeader) (actors.Caller, *live.Forest) {
	c, forest := fs.changer(h)
	if fs.opts.Kept {
		forest = fs.forest.For(c.Actor, h.Unique&^resentBit)
	}
	return c, forest
}

// carriedOut reports whether an earlier daemon carried out a request that the kernel sent again, and
// returns the node that the request made or linked.
func (fs *filesystem) carriedOut(h *fuse.InHeader) (id live.NodeID, ok bool) {
	if h.Unique&resentBit == 0 {
		return 0, false
	}
	return fs.forest.Done(h.Unique &^ resentBit)
}

// answerAgain answers a request that an earlier daemon carried out, with the node that it made. A node
// without a name (op is opTmpfile) is not held by the kernel before it has this answer, and the kernel
// locks no directory for it.
func (fs *filesystem) answerAgain(op string, h *fuse.InHeader, id live.NodeID, out *fuse.EntryOut) fuse.Status {
	a, err := fs.forest.GetAttr(id)
	if err != nil {
		return fs.status(op, id, err)
	}
	if op == opTmpfile {
		fs.lookups.disinherit(id)
	}

	fs.fillEntry(out, live.NodeID(h.NodeId), &a)
	fs.probes.settled([]live.NodeID{id})

	return fuse.OK
}

// attrTimeout is how long the kernel may trust the attributes of a control node. It asks for the
// attributes of a control file each time, so every open sees the present size.
func attrTimeout(id live.NodeID) time.Duration {
	if control.IsDir(id) {
		return control.Brief
	}
	return 0
}

// fillControlEntry answers with a node that was found or made in the control tree, or with err. The
// node may be the root of a workspace or snapshot.
func (fs *filesystem) fillControlEntry(op string, dir live.NodeID, e control.Entry, err error, out *fuse.EntryOut) fuse.Status {
	if err != nil {
		return fs.status(op, dir, err)
	}

	if control.IsNode(e.Attr.ID) {
		out.NodeId = uint64(e.Attr.ID)
		fs.fillAttr(&out.Attr, &e.Attr)
		out.SetAttrTimeout(attrTimeout(e.Attr.ID))
		if !control.IsDir(e.Attr.ID) {
			out.Generation = fs.generation
		}
	} else {
		fs.fillEntry(out, dir, &e.Attr)
	}

	out.SetEntryTimeout(e.Timeout)
	return fuse.OK
}

// attr returns the attributes of any node, and how long they may be trusted.
func (fs *filesystem) attr(id live.NodeID) (live.Attr, time.Duration, error) {
	a, err := fs.treeOf(id).GetAttr(id)
	if control.IsNode(id) {
		return a, attrTimeout(id), err
	}
	if t, ok := fs.capturedAt(id); ok {
		a.Mtime = t
	}

	return a, cacheTime, err
}

// capturedAt returns the time (ns since 1970) of the snapshot whose root the node is, so that
// `ls -lt .snapshots` shows the snapshots in the order of their times.
func (fs *filesystem) capturedAt(id live.NodeID) (int64, bool) {
	if id.Ino() != live.RootIno || id.View() == live.MainView {
		return 0, false
	}
	return fs.control.Captured(id.View())
}

// A kernel implements the interface through which control.Tree reaches the kernel.
type kernel struct {
	*notifier
	*readers
}

func (fs *filesystem) request(cancel <-chan struct{}, h *fuse.InHeader) control.Request {
	r := control.Request{Caller: caller(h), Cancel: cancel, Resent: h.Unique&resentBit != 0}
	if fs.opts.Kept {
		r.Caller.Request = h.Unique &^ resentBit
	}
	if r.Resent {
		r.Carried = fs.opts.Store.Carried(r.Caller.Request)
	}
	if r.Carried != nil { // if the request was an edit, the kernel must have its notices before the answer
		fs.control.Kernel.Blocking(func() { fs.notify.await(fs.repeated, 0) })
	}

	return r
}
