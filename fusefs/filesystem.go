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
	fuse.RawFileSystem // what is not implemented: ENOSYS

	opts    Options
	forest  *live.Forest
	lookups lookups
	control *control.Tree
	notify  *notifier
	aside   *aside
	probes  *probes
	copies  copies
	// removals are those in forks.
	removals removals
	// overlaid is set once overlayfs has asked for an attribute of its own, in whatever
	// mount namespace it is mounted. It may have asked the daemon before, if tookOver.
	overlaid atomic.Bool
	tookOver bool
	// generation is that of control files: see control.firstNumber.
	generation uint64
	// repeated is closed when the kernel has the notices that the daemon before may not have
	// sent; nil if there was none.
	repeated <-chan struct{}
}

func newFilesystem(o Options, k *kernel) *filesystem {
	fs := &filesystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		opts:          o,
		forest:        o.Store.Forest(),
		notify:        k.notifier,
		lookups:       lookups{n: make(map[live.NodeID]uint64)},
		aside:         newAside(),
		generation:    uint64(timeNow()),
	}

	o.Control.Kernel, o.Control.AllowOther = k, o.AllowOther
	fs.control = control.New(o.Control)
	return fs
}

// nodes is the interface that both trees share.
type nodes interface {
	GetAttr(id live.NodeID) (live.Attr, error)
	ReadAt(id live.NodeID, p []byte, off int64) (int, error)
	Readlink(id live.NodeID) (string, error)
	Seek(id live.NodeID, off int64, whence int) (int64, error)
}

func (fs *filesystem) of(id live.NodeID) nodes {
	if control.IsNode(id) {
		return fs.control
	}
	return fs.forest
}

// panicked is called with what a request panicked with. The forest releases
// its locks on the way out, so that only this one request fails.
func (fs *filesystem) panicked(v any) fuse.Status {
	fs.opts.Logger.Error("a request panicked", "panic", v, "stack", string(debug.Stack()))
	return fuse.EIO
}

// Lookup resolves a name. A name that is not there is an answer too, which the
// kernel remembers: most lookups of a build are for files that do not exist.
func (fs *filesystem) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	parent := live.NodeID(h.NodeId)
	if control.IsNode(parent) {
		e, err := fs.control.Lookup(parent, name, fs.request(cancel, h))
		return fs.controlEntry("lookup", parent, e, err, out)
	}
	if name == "." || name == ".." || name == "/" {
		return fs.lookupHandle(parent, name, out)
	}

	if fs.control.Reserves(parent, name) {
		a, err := fs.control.Root(parent, name)
		return fs.controlEntry("lookup", parent, control.Entry{Attr: a, Timeout: cached}, err, out)
	}

	a, err := fs.forest.Lookup(parent, name)
	if errors.Is(err, errs.NotExist) {
		out.NodeId = 0
		out.SetEntryTimeout(cached)
		return fuse.OK
	}
	if err != nil {
		return fs.status("lookup", parent, err)
	}

	fs.entry(out, parent, &a)

	return fuse.OK
}

// lookupHandle finds a node, or its parent, by its number. The kernel asks for that in
// open_by_handle_at(2) and for NFS, whose file handles are node ids. The name "/" stands for
// the node itself: overlayfs before Linux 6.16 asks whether a node that was found is still there.
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

	fs.entry(out, several, &a)

	return fuse.OK
}

// Forget counts that the kernel dropped n of the references it was given.
func (fs *filesystem) Forget(nodeid, n uint64) {
	id := live.NodeID(nodeid)
	if control.IsNode(id) {
		fs.control.Forget(id, n)
		return
	}

	gone, unknown := fs.lookups.forget(id, n)
	switch {
	case gone:
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

// Statx is asked when a program wants the time of birth, which GETATTR has no
// room for.
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
			return fs.setSame(id, s, err, out)
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
		return fs.setSame(id, s, err, out)
	}

	// For chown the kernel sets the flag even for root and group members.
	if s.KillPriv && s.Size != nil && a.Mode&unix.S_ISGID != 0 && a.Mode&unix.S_IFMT == unix.S_IFREG {
		if err = fs.dropSgid(a, &in.InHeader); err == nil {
			a, err = fs.forest.GetAttr(id)
		}
		if err != nil {
			return fs.status("setattr", id, err)
		}
	}

	if s.Mode != nil && fs.opts.ACL {
		if err := fs.chmodACL(forest, id, *s.Mode); err != nil {
			return fs.status("setattr", id, err)
		}
	}

	fs.fillAttr(&out.Attr, &a)
	out.SetTimeout(cached)
	fs.event(Event{Caller: who, Action: events.Modified, Node: id})

	return fuse.OK
}

// outdated reports whether an edit may have replaced a node that a program found by its name, and
// the name is still to be dropped. To ESTALE the kernel looks the whole path up and asks again.
func (fs *filesystem) outdated(id live.NodeID) bool {
	if fs.notify.edits.Load() == 0 {
		return false
	}
	a, err := fs.forest.GetAttr(id)
	return err == nil && a.Nlink == 0
}

// setSame answers a SETATTR that failed. In a tree that cannot be changed it
// succeeds if the values are those that the node has: gVisor sets the owner of each
// directory that it has made, also in .snapshots.
func (fs *filesystem) setSame(id live.NodeID, s live.SetAttr, failed error, out *fuse.AttrOut) fuse.Status {
	a, timeout, err := fs.attr(id)
	same := func(want *int64, is int64) bool { return want == nil || *want == is }
	if err != nil || !errors.Is(failed, live.ErrReadOnly) && !errors.Is(failed, errs.Perm) || s.Size != nil ||
		s.Mode != nil && (*s.Mode^a.Mode)&0o7777 != 0 || s.UID != nil && *s.UID != a.UID || s.GID != nil && *s.GID != a.GID ||
		!same(s.Atime, a.Atime) || !same(s.Mtime, a.Mtime) || !same(s.Ctime, a.Ctime) {
		return fs.status("setattr", id, failed)
	}

	fs.fillAttr(&out.Attr, &a)
	out.SetTimeout(timeout)

	return fuse.OK
}

// copiesUp reports whether a change of owner can be a step with which overlayfs copies a
// file to its upper layer. It sets the mode and the capabilities before, and the kernel asks
// to clear them as for chown(2). The file has no name yet, before Linux 6.2 one that begins
// with #, and the caller owns it: the caller could set the mode again.
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

// setAttr translates what the kernel wants changed. With HANDLE_KILLPRIV_V2
// the kernel leaves the clearing of the set-user-ID bit to us: it says so for
// a truncation, and chown always does it (chown_common in the kernel). ok is false for a
// time that cannot be stored.
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

	set := func(valid, now uint32, sec uint64, nsec uint32) *int64 {
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

	s.Atime = set(fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec)
	s.Mtime = set(fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec)
	s.Ctime = set(fuse.FATTR_CTIME, 0, in.Ctime, in.Ctimensec)
	s.KillPriv = in.Valid&fuse.FATTR_KILL_SUIDGID != 0 || s.UID != nil || s.GID != nil
	return s, ok
}
