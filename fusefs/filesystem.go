package fusefs

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/fusefs/takeover"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// filesystem answers the requests of one mount. control.Tree handles the requests of the control tree. Each
// other request becomes one call of the forest.
type filesystem struct {
	fuse.RawFileSystem // answers requests that filesystem does not implement with ENOSYS

	opts     Options
	forest   *live.Forest
	control  *control.Tree
	notifier *notifier

	callers     *callers
	permissions *permissions
	replies     *replies
	overlays    overlays
	// removals records which forks were bookmarked before a removal.
	removals removals
}

func newFilesystem(o Options, k *kernel) *filesystem {
	forest := o.Store.Forest()
	o.Control.Kernel, o.Control.AllowOther = k, o.AllowOther
	fs := &filesystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		opts:          o,
		forest:        forest,
		control:       control.New(o.Control),
		notifier:      k.notifier,
		callers:       &callers{store: o.Store, forest: forest},
		permissions:   &permissions{forest: forest, ids: o.Ids, acl: o.ACL},
		overlays:      overlays{forest: forest},
		removals:      removals{store: o.Store, log: o.Logger},
	}

	fs.replies = &replies{
		forest: forest, control: fs.control, permissions: fs.permissions, lookups: takeover.NewLookups(),
		parking: newParkingLot(), log: o.Logger, generation: uint64(timeNow()),
	}

	return fs
}

// Lookup resolves a name. The kernel also caches the answer that a name is absent: most
// lookups of a build are for files that do not exist.
func (fs *filesystem) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	parent := live.NodeID(h.NodeId)
	if control.IsNode(parent) {
		e, err := fs.control.Lookup(parent, name, fs.callers.controlRequest(cancel, h))
		return fs.replies.fillControlEntry("lookup", parent, e, err, out)
	}
	if name == "." || name == ".." || name == "/" {
		return fs.lookupHandle(parent, name, out)
	}

	if fs.control.IsReserved(parent, name) {
		a, err := fs.control.LookupDir(parent, name)
		return fs.replies.fillControlEntry("lookup", parent, control.Entry{Attr: a, Timeout: cacheTime}, err, out)
	}

	a, err := fs.forest.Lookup(parent, name)
	if errors.Is(err, errs.NotExist) {
		out.NodeId = 0
		out.SetEntryTimeout(cacheTime)
		return fuse.OK
	}
	if err != nil {
		return fs.replies.status("lookup", parent, err)
	}

	fs.replies.fillEntry(out, parent, &a)

	return fuse.OK
}

// lookupHandle answers with the node id itself if name is ".", and with its parent if name is "..". The kernel
// looks these names up for open_by_handle_at(2) and for NFS, whose file handles are node ids. For the name "/"
// the answer is also the node itself: overlayfs before Linux 6.16 looks this name up to find out whether the
// node still exists.
func (fs *filesystem) lookupHandle(id live.NodeID, name string, out *fuse.EntryOut) fuse.Status {
	if name == ".." {
		if id.Ino() == live.RootIno {
			return fuse.ENOENT // a root has no parent in the forest
		}
		parent, err := fs.forest.Parent(id)
		if err != nil {
			return fs.replies.status("lookup", id, err)
		}
		id = parent
	}

	a, err := fs.forest.GetAttr(id)
	if err != nil {
		return fs.replies.status("lookup", id, err)
	}

	fs.replies.fillEntry(out, takeover.SeveralDirs, &a)

	return fuse.OK
}

// Forget is called when the kernel has dropped n references to a node.
func (fs *filesystem) Forget(nodeid, n uint64) {
	id := live.NodeID(nodeid)
	if control.IsNode(id) {
		fs.control.Forget(id, n)
		return
	}

	last, unknown := fs.replies.lookups.Forget(id, n)
	switch {
	case last:
		fs.forest.Takeover.Forget(id)
	case unknown:
		fs.replies.probes.Add(id)
	}
}

func (fs *filesystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	id := live.NodeID(in.NodeId)
	a, timeout, err := fs.replies.attr(id)
	if err != nil {
		return fs.replies.status("getattr", id, err)
	}

	fs.replies.fillAttr(&out.Attr, &a)
	out.SetTimeout(timeout)

	return fuse.OK
}

// Statx is called when a program asks for the time of birth, which the answer to GETATTR
// does not have.
func (fs *filesystem) Statx(_ <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	id := live.NodeID(in.NodeId)
	a, timeout, err := fs.replies.attr(id)
	if err != nil {
		return fs.replies.status("statx", id, err)
	}

	fs.replies.fillStatx(&out.Statx, &a)
	out.SetTimeout(timeout)

	return fuse.OK
}

// SetAttr is chmod, chown, truncate, utimens and, as ATOMIC_O_TRUNC is off,
// the O_TRUNC of open.
func (fs *filesystem) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	id := live.NodeID(in.NodeId)
	s, ok := attrsToSet(in)
	if !ok {
		return fuse.EINVAL
	}

	if control.IsNode(id) {
		a, err := fs.control.SetAttr(id, s, caller(&in.InHeader))
		if err != nil {
			return fs.replies.answerFailedSetAttr(id, s, err, out)
		}

		fs.replies.fillAttr(&out.Attr, &a)
		return fuse.OK
	}
	if fs.opts.isNudge(in) {
		return fs.GetAttr(nil, &fuse.GetAttrIn{InHeader: in.InHeader}, out)
	}
	if bad := fs.permissions.checkSetAttr(in, &s); bad != fuse.OK {
		return bad
	}
	if s.Size != nil && in.Valid&fuse.FATTR_FH == 0 && fs.notifier.isOutdated(fs.forest, id) {
		return fuse.Status(unix.ESTALE)
	}
	if s.UID != nil && s.GID != nil && fs.overlays.mayBeCopyUp(id, in.InHeader.Uid) {
		s.KillPriv = false
	}

	fs.permissions.completeSetAttr(id, &s)
	who, writer := fs.callers.writerFor(&in.InHeader)
	a, err := writer.SetAttr(id, s)
	if err != nil {
		return fs.replies.answerFailedSetAttr(id, s, err, out)
	}

	// The bit is dropped here only after a truncation. For chown the kernel asks for it even if the caller is
	// root or a member of the group, who may keep the bit.
	if s.KillPriv && s.Size != nil && a.Mode&unix.S_ISGID != 0 && a.Mode&unix.S_IFMT == unix.S_IFREG {
		if err := fs.permissions.dropSgid(writer, a, &in.InHeader); err != nil {
			return fs.replies.status("setattr", id, err)
		}
		if a, err = fs.forest.GetAttr(id); err != nil {
			return fs.replies.status("setattr", id, err)
		}
	}

	if s.Mode != nil && fs.opts.ACL {
		if err := fs.permissions.chmodACL(writer, id, *s.Mode); err != nil {
			return fs.replies.status("setattr", id, err)
		}
	}

	fs.replies.fillAttr(&out.Attr, &a)
	out.SetTimeout(cacheTime)
	fs.recordEvent(Event{Caller: who, Action: events.Modified, Node: id})

	return fuse.OK
}

// attrsToSet returns the attributes that a SETATTR sets. With HANDLE_KILLPRIV_V2 the file system clears the
// set-user-ID bit (KillPriv): the kernel sets a flag for a truncation, and chown always clears the bit
// (chown_common in the kernel). ok is false if a time cannot be stored.
func attrsToSet(in *fuse.SetAttrIn) (s live.SetAttr, ok bool) {
	ok = true
	if m, set := in.GetMode(); set {
		s.Mode = &m
	}
	if u, set := in.GetUID(); set {
		s.UID = &u
	}
	if g, set := in.GetGID(); set {
		s.GID = &g
	}

	if n, set := in.GetSize(); set {
		size := int64(n)
		s.Size = &size
	}

	timeOf := func(valid, now uint32, sec uint64, nsec uint32) *int64 {
		if in.Valid&valid == 0 {
			return nil
		}

		if in.Valid&now != 0 {
			t := timeNow()
			return &t
		}

		t, stored := filetime.FromUnix(int64(sec), int64(nsec))
		ok = ok && stored

		return &t
	}

	s.Atime = timeOf(fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec)
	s.Mtime = timeOf(fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec)
	s.Ctime = timeOf(fuse.FATTR_CTIME, 0, in.Ctime, in.Ctimensec)
	s.KillPriv = in.Valid&fuse.FATTR_KILL_SUIDGID != 0 || s.UID != nil || s.GID != nil
	return s, ok
}
