package fusefs

import (
	"cmp"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// newNode carries out mknod, mkdir, symlink, create and, with the name "", tmpfile.
func (fs *filesystem) newNode(op string, h *fuse.InHeader, name string, c live.NewNode, umask uint32, out *fuse.EntryOut) fuse.Status {
	parent := live.NodeID(h.NodeId)
	if id, ok := fs.callers.carriedOut(h); ok {
		return fs.replies.answerResent(op, h, id, out)
	}
	if fs.control.IsReserved(parent, name) {
		return fuse.EPERM
	}

	who, writer := fs.callers.onceWriterFor(h)
	c.Caller = who
	if fs.opts.ACL {
		if err := fs.permissions.inheritACL(parent, &c, umask); err != nil {
			return fs.replies.status(op, parent, err)
		}
	}

	create := writer.Create
	if name == "" {
		create = func(parent live.NodeID, _ string, c live.NewNode) (live.Attr, error) {
			return writer.Tmpfile(parent, c)
		}
	}

	a, err := create(parent, name, c)
	if err != nil {
		return fs.replies.status(op, parent, err)
	}

	fs.replies.fillEntry(out, parent, &a)
	if name != "" {
		fs.recordEvent(Event{Caller: who, Action: events.Created, Node: a.ID, Parent: parent, Name: name})
	}

	return fuse.OK
}

func (fs *filesystem) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	if id := live.NodeID(in.NodeId); control.IsNode(id) {
		e, err := fs.control.Create(id, name, in.Mode, caller(&in.InHeader))
		return fs.replies.fillControlEntry("mknod", id, e, err, out)
	}
	return fs.newNode("mknod", &in.InHeader, name, live.NewNode{Mode: in.Mode, Rdev: in.Rdev}, in.Umask, out)
}

func (fs *filesystem) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	if id := live.NodeID(in.NodeId); control.IsNode(id) {
		e, err := fs.control.Mkdir(id, name, fs.callers.controlRequest(cancel, &in.InHeader))
		return fs.replies.fillControlEntry("mkdir", id, e, err, out)
	}
	c := live.NewNode{Mode: in.Mode&07777 | syscall.S_IFDIR}
	return fs.newNode("mkdir", &in.InHeader, name, c, in.Umask, out)
}

func (fs *filesystem) Symlink(_ <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	if control.IsNode(live.NodeID(h.NodeId)) {
		return fuse.EPERM
	}
	return fs.newNode("symlink", h, name, live.NewNode{Mode: syscall.S_IFLNK | 0o777, Target: target}, 0, out)
}

// Create makes a file and opens it. It saves the round trip of an OPEN after MKNOD.
func (fs *filesystem) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE // writes to the new file leave pages in the kernel's cache; these stay valid for the next open
	if id := live.NodeID(in.NodeId); control.IsNode(id) {
		e, err := fs.control.Create(id, name, in.Mode, caller(&in.InHeader))
		return fs.replies.fillControlEntry("create", id, e, err, &out.EntryOut)
	}

	c := live.NewNode{Mode: in.Mode&07777 | syscall.S_IFREG}
	st := fs.newNode("create", &in.InHeader, name, c, in.Umask, &out.EntryOut)
	if st == fuse.Status(syscall.EEXIST) && in.Flags&syscall.O_EXCL == 0 {
		return fuse.Status(syscall.ESTALE) // an edit has created the name since the kernel looked it up
	}

	return st
}

const opTmpfile = "tmpfile"

// Tmpfile makes a file without a name (open with O_TMPFILE).
func (fs *filesystem) Tmpfile(_ <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	if control.IsNode(live.NodeID(in.NodeId)) {
		return fuse.EPERM
	}
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	c := live.NewNode{Mode: in.Mode&07777 | syscall.S_IFREG}
	return fs.newNode(opTmpfile, &in.InHeader, "", c, in.Umask, &out.EntryOut)
}

func (fs *filesystem) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	id, parent := live.NodeID(in.Oldnodeid), live.NodeID(in.NodeId)
	if control.IsNode(id) || control.IsNode(parent) || fs.control.IsReserved(parent, name) {
		return fuse.EPERM
	}
	if id, ok := fs.callers.carriedOut(&in.InHeader); ok {
		return fs.replies.answerResent("link", &in.InHeader, id, out)
	}
	if bad := fs.permissions.checkLink(id); bad != fuse.OK {
		return bad
	}

	who, writer := fs.callers.onceWriterFor(&in.InHeader)
	a, err := writer.Link(id, parent, name)
	if err != nil && fs.notifier.isOutdated(fs.forest, id) {
		return fuse.Status(syscall.ESTALE)
	}
	if err != nil {
		return fs.replies.status("link", id, err)
	}

	fs.replies.fillEntry(out, parent, &a)
	fs.recordEvent(Event{Caller: who, Action: events.Created, Node: a.ID, Parent: parent, Name: name})

	return fuse.OK
}

func (fs *filesystem) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	parent := live.NodeID(h.NodeId)
	if control.IsNode(parent) {
		return fs.replies.status("unlink", parent, fs.control.Unlink(parent, name, fs.callers.controlRequest(nil, h)))
	}
	return fs.remove("unlink", h, name, live.Writer.Unlink)
}

func (fs *filesystem) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	parent := live.NodeID(h.NodeId)
	if control.IsNode(parent) {
		return fs.replies.status("rmdir", parent, fs.control.Rmdir(parent, name, fs.callers.controlRequest(cancel, h)))
	}
	if fs.control.IsReserved(parent, name) {
		return fuse.EPERM
	}

	return fs.remove("rmdir", h, name, live.Writer.Rmdir)
}

func (fs *filesystem) remove(op string, h *fuse.InHeader, name string, remove func(live.Writer, live.NodeID, string) (live.NodeID, error)) fuse.Status {
	parent := live.NodeID(h.NodeId)
	if _, ok := fs.callers.carriedOut(h); ok {
		return fuse.OK
	}
	if bad := fs.permissions.checkRemoval(parent, name); bad != fuse.OK {
		return bad
	}

	fs.removals.beforeRemoval(parent)
	who, writer := fs.callers.onceWriterFor(h)
	id, err := remove(writer, parent, name)
	if err != nil {
		return fs.replies.status(op, parent, err)
	}

	fs.recordEvent(Event{Caller: who, Action: events.Deleted, Node: id, Parent: parent, Name: name})

	return fuse.OK
}

func (fs *filesystem) Rename(cancel <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	fromDir, toDir := live.NodeID(in.NodeId), live.NodeID(in.Newdir)
	if control.IsNode(fromDir) || control.IsNode(toDir) {
		return fs.replies.status("rename", fromDir, fs.control.Rename(fromDir, from, toDir, to, in.Flags, fs.callers.controlRequest(cancel, &in.InHeader)))
	}
	if _, ok := fs.callers.carriedOut(&in.InHeader); ok {
		return fuse.OK
	}
	if fs.control.IsReserved(fromDir, from) || fs.control.IsReserved(toDir, to) {
		return fuse.EPERM
	}

	if fromDir.View() != toDir.View() {
		_, fromWorkspace := fs.opts.Store.Workspace(fromDir.View())
		_, toWorkspace := fs.opts.Store.Workspace(toDir.View())
		if !fromWorkspace || !toWorkspace {
			// At least one of the two views is a snapshot. After EXDEV, mv(1) would copy the files and then fail
			// to remove them.
			return fuse.EROFS
		}
	}

	if bad := cmp.Or(fs.permissions.checkRemoval(fromDir, from), fs.permissions.checkRemoval(toDir, to)); bad != fuse.OK {
		return bad
	}

	if fs.opts.Ids != nil && in.Flags&unix.RENAME_EXCHANGE == 0 {
		_, writer := fs.callers.writerFor(&in.InHeader)
		if err := fs.permissions.inheritFromReplaced(writer, fromDir, from, toDir, to); err != nil {
			return fs.replies.status("rename", fromDir, err)
		}
	}

	who, writer := fs.callers.onceWriterFor(&in.InHeader)
	replaced, err := writer.Rename(fromDir, from, toDir, to, in.Flags, who)
	if err != nil {
		return fs.replies.status("rename", fromDir, err)
	}

	fs.notifier.onRenamed(toDir, to)
	if in.Flags&unix.RENAME_EXCHANGE != 0 {
		fs.notifier.onRenamed(fromDir, from)
	}

	fs.recordEvent(Event{
		Caller: who, Action: events.Renamed, Node: replaced,
		Parent: fromDir, Name: from, NewParent: toDir, NewName: to,
	})

	return fuse.OK
}

func (fs *filesystem) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	id := live.NodeID(h.NodeId)
	target, err := fs.replies.treeOf(id).Readlink(id)
	return []byte(target), fs.replies.status("readlink", id, err)
}
