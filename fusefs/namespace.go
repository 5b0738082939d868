package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// make_ is what mknod, mkdir, symlink and create have in common.
func (fs *filesystem) make_(op string, h *fuse.InHeader, name string, c live.Create, umask uint32, out *fuse.EntryOut) fuse.Status {
	parent := live.NodeID(h.NodeId)
	if parent.Ino() == live.RootIno && isControlDir(name) && fs.control.reserved(parent) {
		return fuse.EPERM
	}
	c.Caller = caller(h)
	if fs.opts.ACL {
		if err := fs.inheritACL(parent, &c, umask); err != nil {
			return fs.status(op, parent, err)
		}
	}
	a, err := fs.forest.Create(parent, name, c)
	if err != nil {
		return fs.status(op, parent, err)
	}
	fs.entry(out, &a)
	fs.event(Event{Caller: c.Caller, Action: Created, Node: a.ID, Parent: parent, Name: name})
	return fuse.OK
}

func (fs *filesystem) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	fs.counts.add(opMknod)
	if id := live.NodeID(in.NodeId); isControl(id) {
		return fs.control.create(id, name, &in.InHeader, in.Mode, out)
	}
	return fs.make_("mknod", &in.InHeader, name, live.Create{Mode: in.Mode, Rdev: in.Rdev}, in.Umask, out)
}

func (fs *filesystem) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	fs.counts.add(opMkdir)
	if id := live.NodeID(in.NodeId); isControl(id) {
		return fs.control.mkdir(id, name, &in.InHeader, out)
	}
	c := live.Create{Mode: in.Mode&07777 | syscall.S_IFDIR}
	return fs.make_("mkdir", &in.InHeader, name, c, in.Umask, out)
}

func (fs *filesystem) Symlink(_ <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	fs.counts.add(opSymlink)
	if isControl(live.NodeID(h.NodeId)) {
		return fuse.EPERM
	}
	return fs.make_("symlink", h, name, live.Create{Mode: syscall.S_IFLNK | 0o777, Target: target}, 0, out)
}

// Create makes a file and opens it. The kernel asks once for the two, so a new
// file costs one round trip less than with MKNOD.
func (fs *filesystem) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	fs.counts.add(opCreate)
	out.OpenFlags = openFlags
	if id := live.NodeID(in.NodeId); isControl(id) {
		return fs.control.create(id, name, &in.InHeader, in.Mode, &out.EntryOut)
	}
	c := live.Create{Mode: in.Mode&07777 | syscall.S_IFREG}
	return fs.make_("create", &in.InHeader, name, c, in.Umask, &out.EntryOut)
}

// Tmpfile makes a file without a name (open with O_TMPFILE).
func (fs *filesystem) Tmpfile(_ <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	fs.counts.add(opTmpfile)
	parent := live.NodeID(in.NodeId)
	if isControl(parent) {
		return fuse.EPERM
	}
	c := live.Create{Mode: in.Mode&07777 | syscall.S_IFREG, Caller: caller(&in.InHeader)}
	if fs.opts.ACL {
		if err := fs.inheritACL(parent, &c, in.Umask); err != nil {
			return fs.status("tmpfile", parent, err)
		}
	}
	a, err := fs.forest.Tmpfile(parent, c)
	if err != nil {
		return fs.status("tmpfile", parent, err)
	}
	out.OpenFlags = openFlags
	fs.entry(&out.EntryOut, &a)
	return fuse.OK
}

func (fs *filesystem) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	fs.counts.add(opLink)
	id, parent := live.NodeID(in.Oldnodeid), live.NodeID(in.NodeId)
	if isControl(id) || isControl(parent) {
		return fuse.EPERM
	}
	if parent.Ino() == live.RootIno && isControlDir(name) && fs.control.reserved(parent) {
		return fuse.EPERM
	}
	a, err := fs.forest.Link(id, parent, name)
	if err != nil {
		return fs.status("link", id, err)
	}
	fs.entry(out, &a)
	fs.event(Event{Caller: caller(&in.InHeader), Action: Created, Node: a.ID, Parent: parent, Name: name})
	return fuse.OK
}

func (fs *filesystem) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	fs.counts.add(opUnlink)
	parent := live.NodeID(h.NodeId)
	if isControl(parent) {
		return fs.control.unlink(parent, name)
	}
	fs.beforeRemoval(parent)
	id, err := fs.forest.Unlink(parent, name)
	if err != nil {
		return fs.status("unlink", parent, err)
	}
	fs.event(Event{Caller: caller(h), Action: Deleted, Node: id, Parent: parent, Name: name})
	return fuse.OK
}

func (fs *filesystem) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	fs.counts.add(opRmdir)
	parent := live.NodeID(h.NodeId)
	if isControl(parent) {
		return fs.control.rmdir(parent, name, h)
	}
	if parent.Ino() == live.RootIno && isControlDir(name) && fs.control.reserved(parent) {
		return fuse.EPERM
	}
	fs.beforeRemoval(parent)
	id, err := fs.forest.Rmdir(parent, name)
	if err != nil {
		return fs.status("rmdir", parent, err)
	}
	fs.event(Event{Caller: caller(h), Action: Deleted, Node: id, Parent: parent, Name: name})
	return fuse.OK
}

func (fs *filesystem) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	fs.counts.add(opRename)
	op, np := live.NodeID(in.NodeId), live.NodeID(in.Newdir)
	if isControl(op) || isControl(np) {
		return fs.control.rename(op, from, np, to, in.Flags, &in.InHeader)
	}
	if fs.reservedAt(op, from) || fs.reservedAt(np, to) {
		return fuse.EPERM
	}
	if op.View() != np.View() && (fs.readOnlyView(op.View()) || fs.readOnlyView(np.View())) {
		// With EXDEV mv would copy and then fail to remove what it copied.
		return fuse.EROFS
	}
	if in.Flags&unix.RENAME_WHITEOUT != 0 {
		return fuse.EINVAL
	}
	replaced, err := fs.forest.Rename(op, from, np, to, in.Flags)
	if err != nil {
		return fs.status("rename", op, err)
	}
	fs.event(Event{
		Caller: caller(&in.InHeader), Action: Renamed, Node: replaced,
		Parent: op, Name: from, NewParent: np, NewName: to,
	})
	return fuse.OK
}

// reservedAt reports whether a name is one of the control directories.
func (fs *filesystem) reservedAt(parent live.NodeID, name string) bool {
	return parent.Ino() == live.RootIno && isControlDir(name) && fs.control.reserved(parent)
}

// readOnlyView reports whether a view is that of a snapshot.
func (fs *filesystem) readOnlyView(view uint32) bool {
	_, ok := fs.store.Workspace(view)
	return !ok
}

func (fs *filesystem) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	fs.counts.add(opReadlink)
	id := live.NodeID(h.NodeId)
	if isControl(id) {
		return fs.control.readlink(id)
	}
	target, err := fs.forest.Readlink(id)
	if err != nil {
		return nil, fs.status("readlink", id, err)
	}
	return []byte(target), fuse.OK
}

// sortedXattrs keeps what tree.Inode asks of its attributes.
func sortedXattrs(xs []tree.Xattr, x tree.Xattr) []tree.Xattr {
	i := 0
	for i < len(xs) && xs[i].Name < x.Name {
		i++
	}
	return append(xs[:i:i], append([]tree.Xattr{x}, xs[i:]...)...)
}
