package fusefs

import (
	"errors"
	"path"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// filesystem answers the requests of one mount. The requests of the control
// tree go to control.Tree; all others are one call of the forest each.
type filesystem struct {
	fuse.RawFileSystem // answers requests that filesystem does not implement with ENOSYS

	opts    Options
	forest  *live.Forest
	lookups lookups
	control *control.Tree
	notify  *notifier
	parking *parkingLot
	probes  *probes
	copies  copies
	// removals has the forks that were bookmarked before a removal.
	removals removals
	// overlaid is set once overlayfs has asked for one of its attributes, in whatever mount
	// namespace it is mounted. If tookOver, it may have asked the earlier daemon instead.
	overlaid atomic.Bool
	tookOver bool
	// generation is the generation number of control files: see control.firstNumber.
	generation uint64
	// repeated is closed when the kernel has the notices that the earlier daemon may not have
	// sent; nil without a takeover.
	repeated <-chan struct{}
}

func newFilesystem(o Options, k *kernel) *filesystem {
	fs := &filesystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		opts:          o,
		forest:        o.Store.Forest(),
		notify:        k.notifier,
		lookups:       lookups{n: make(map[live.NodeID]uint64)},
		parking:       newParkingLot(),
		generation:    uint64(timeNow()),
	}

	o.Control.Kernel, o.Control.AllowOther = k, o.AllowOther
	fs.control = control.New(o.Control)
	return fs
}

// nodeReader has the methods that the forest and the control tree share.
type nodeReader interface {
	GetAttr(id live.NodeID) (live.Attr, error)
	ReadAt(id live.NodeID, p []byte, off int64) (int, error)
	Readlink(id live.NodeID) (string, error)
	Seek(id live.NodeID, off int64, whence int) (int64, error)
}

// treeOf returns the forest or the control tree, by the number of a node.
func (fs *filesystem) treeOf(id live.NodeID) nodeReader {
	if control.IsNode(id) {
		return fs.control
	}
	return fs.forest
}

// handlePanic is called with the value of a panic in a request. The forest has released
// its locks by deferred calls, so only this one request fails.
func (fs *filesystem) handlePanic(v any) fuse.Status {
	fs.opts.Logger.Error("a request panicked", "panic", v, "stack", string(debug.Stack()))
	return fuse.EIO
}

// Lookup resolves a name. The kernel also caches the answer that a name is absent: most
// lookups of a build are for files that do not exist.
func (fs *filesystem) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	parent := live.NodeID(h.NodeId)
	if control.IsNode(parent) {
		e, err := fs.control.Lookup(parent, name, fs.request(cancel, h))
		return fs.fillControlEntry("lookup", parent, e, err, out)
	}
	if name == "." || name == ".." || name == "/" {
		return fs.lookupHandle(parent, name, out)
	}

	if fs.control.Reserves(parent, name) {
		a, err := fs.control.Root(parent, name)
		return fs.fillControlEntry("lookup", parent, control.Entry{Attr: a, Timeout: cacheTime}, err, out)
	}

	a, err := fs.forest.Lookup(parent, name)
	if errors.Is(err, errs.NotExist) {
		out.NodeId = 0
		out.SetEntryTimeout(cacheTime)
		return fuse.OK
	}
	if err != nil {
		return fs.status("lookup", parent, err)
	}

	fs.fillEntry(out, parent, &a)

	return fuse.OK
}

// lookupHandle finds a node by its number (name "."), or the parent of the node (name ".."). The kernel
// asks for them in open_by_handle_at(2) and for NFS, whose file handles are node ids. The name "/" also
// stands for the node: overlayfs before Linux 6.16 asks so whether the node still exists.
func (fs *filesystem) lookupHandle(id live.NodeID, name string, out *fuse.EntryOut) fuse.Status {
	if name == ".." {
		if id.Ino() == live.RootIno {
			return fuse.ENOENT // the root of a fork or snapshot lies in the control tree
		}
		parent, err := fs.forest.Parent(id)
		if err != nil {
			return fs.status("lookup", id, err)
		}
		id = parent
	}

	a, err := fs.forest.GetAttr(id)
	if err != nil {
		return fs.status("lookup", id, err)
	}

	fs.fillEntry(out, several, &a)

	return fuse.OK
}

// Forget subtracts the n references to a node that the kernel dropped.
func (fs *filesystem) Forget(nodeid, n uint64) {
	id := live.NodeID(nodeid)
	if control.IsNode(id) {
		fs.control.Forget(id, n)
		return
	}

	last, unknown := fs.lookups.forget(id, n)
	switch {
	case last:
		fs.forest.Forget(id)
	case unknown:
		fs.probes.add(id)
	}
}

func (fs *filesystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	id := live.NodeID(in.NodeId)
	a, timeout, err := fs.attr(id)
	if err != nil {
		return fs.status("getattr", id, err)
	}

	fs.fillAttr(&out.Attr, &a)
	out.SetTimeout(timeout)

	return fuse.OK
}

// Statx is called when a program asks for the time of birth, which the answer to GETATTR
// does not have.
func (fs *filesystem) Statx(_ <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	id := live.NodeID(in.NodeId)
	a, timeout, err := fs.attr(id)
	if err != nil {
		return fs.status("statx", id, err)
	}

	fs.fillStatx(&out.Statx, &a)
	out.SetTimeout(timeout)

	return fuse.OK
}

// SetAttr is chmod, chown, truncate, utimens and, as ATOMIC_O_TRUNC is off,
// the O_TRUNC of open.
func (fs *filesystem) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	id := live.NodeID(in.NodeId)
	s, ok := setAttr(in)
	if !ok {
		return fuse.EINVAL
	}

	if control.IsNode(id) {
		a, err := fs.control.SetAttr(id, s, caller(&in.InHeader))
		if err != nil {
			return fs.answerUnchanged(id, s, err, out)
		}

		fs.fillAttr(&out.Attr, &a)
		return fuse.OK
	}
	if fs.isNudge(in) {
		return fs.GetAttr(nil, &fuse.GetAttrIn{InHeader: in.InHeader}, out)
	}
	if bad := fs.maySetAttr(in, &s); bad != fuse.OK {
		return bad
	}
	if s.Size != nil && in.Valid&fuse.FATTR_FH == 0 && fs.outdated(id) {
		return fuse.Status(unix.ESTALE)
	}
	if s.UID != nil && s.GID != nil && fs.copiesUp(id, in.InHeader.Uid) {
		s.KillPriv = false
	}

	fs.preserve(id, &s)
	who, forest := fs.changer(&in.InHeader)
	a, err := forest.SetAttr(id, s)
	if err != nil {
		return fs.answerUnchanged(id, s, err, out)
	}

	// For chown the kernel sets the flag even for root and group members.
	if s.KillPriv && s.Size != nil && a.Mode&unix.S_ISGID != 0 && a.Mode&unix.S_IFMT == unix.S_IFREG {
		if err := fs.dropSgid(a, &in.InHeader); err != nil {
			return fs.status("setattr", id, err)
		}
		if a, err = fs.forest.GetAttr(id); err != nil {
			return fs.status("setattr", id, err)
		}
	}

	if s.Mode != nil && fs.opts.ACL {
		if err := fs.chmodACL(forest, id, *s.Mode); err != nil {
			return fs.status("setattr", id, err)
		}
	}

	fs.fillAttr(&out.Attr, &a)
	out.SetTimeout(cacheTime)
	fs.event(Event{Caller: who, Action: events.Modified, Node: id})

	return fuse.OK
}

// outdated reports whether an edit may have replaced a node after a program found it by its name, and
// the kernel has still to drop this name. The caller answers with ESTALE then: the kernel looks the
// whole path up again and repeats the request.
func (fs *filesystem) outdated(id live.NodeID) bool {
	if fs.notify.edits.Load() == 0 {
		return false
	}
	a, err := fs.forest.GetAttr(id)
	return err == nil && a.Nlink == 0
}

// answerUnchanged answers a SETATTR that failed with the error failed. In a read-only tree the answer
// is a success if the node has these attributes already: gVisor sets the owner of each
// directory that it has made, also in .snapshots.
func (fs *filesystem) answerUnchanged(id live.NodeID, s live.SetAttr, failed error, out *fuse.AttrOut) fuse.Status {
	if s.Size != nil || !errors.Is(failed, live.ErrReadOnly) && !errors.Is(failed, errs.Perm) {
		return fs.status("setattr", id, failed)
	}

	a, timeout, err := fs.attr(id)
	same := func(want *int64, is int64) bool { return want == nil || *want == is }
	if err != nil ||
		s.Mode != nil && (*s.Mode^a.Mode)&0o7777 != 0 || s.UID != nil && *s.UID != a.UID || s.GID != nil && *s.GID != a.GID ||
		!same(s.Atime, a.Atime) || !same(s.Mtime, a.Mtime) || !same(s.Ctime, a.Ctime) {
		return fs.status("setattr", id, failed)
	}

	fs.fillAttr(&out.Attr, &a)
	out.SetTimeout(timeout)

	return fuse.OK
}

// copiesUp reports whether a change of owner can be the step with which overlayfs copies a file to its
// upper layer. Overlayfs sets the mode and the capabilities before this step, and the kernel asks to
// clear them as for chown(2); they must stay. Such a file has no name yet or, before Linux 6.2, a name
// that begins with #. The caller owns the file, so it gains no right: it could set the mode again.
func (fs *filesystem) copiesUp(id live.NodeID, uid uint32) bool {
	if !fs.overlaid.Load() && !fs.tookOver {
		return false
	}
	a, err := fs.forest.GetAttr(id)
	if err != nil || a.UID != uid {
		return false
	}

	name, err := fs.forest.Path(id, unix.PathMax)
	return errors.Is(err, errs.NotExist) || err == nil && strings.HasPrefix(path.Base(name), "#")
}

// isNudge reports whether a SETATTR only makes the kernel notify watchers, see Options.Nudge.
func (fs *filesystem) isNudge(in *fuse.SetAttrIn) bool {
	return fs.opts.Nudge > 0 && in.Valid&^(fuse.FATTR_FH|fuse.FATTR_LOCKOWNER) == fuse.FATTR_MTIME &&
		int64(in.Mtime)*1e9+int64(in.Mtimensec) == fs.opts.Nudge
}

// setAttr translates the attributes in a SETATTR. With HANDLE_KILLPRIV_V2 the file system
// clears the set-user-ID bit (KillPriv): the kernel sets a flag for a truncation, and chown
// always clears the bit (chown_common in the kernel). ok is false for a time that cannot be stored.
func setAttr(in *fuse.SetAttrIn) (s live.SetAttr, ok bool) {
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

		t, stored := filetime.Of(int64(sec), int64(nsec))
		ok = ok && stored

		return &t
	}

	s.Atime = timeOf(fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec)
	s.Mtime = timeOf(fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec)
	s.Ctime = timeOf(fuse.FATTR_CTIME, 0, in.Ctime, in.Ctimensec)
	s.KillPriv = in.Valid&fuse.FATTR_KILL_SUIDGID != 0 || s.UID != nil || s.GID != nil
	return s, ok
}
