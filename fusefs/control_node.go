package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A node is a generated file or symlink, or a scratch file. control.mu guards
// what changes.
type node struct {
	id      live.NodeID
	key     fileKey
	ws      *snapshot.Workspace
	mode    uint32
	mtime   int64 // ns
	scratch bool
	owner   live.Caller // of a scratch file; others belong to the workspace's owner
	log     Log         // of the event log, whose node stays while it grows

	shown   int64   // the size of the log that the kernel knows
	of      subject // what content was made from
	content []byte
	partial []byte // the beginning of a command that came in several writes
	cached  bool   // the kernel may have pages of it
}

// attrLocked returns the attributes of a file.
func (c *control) attrLocked(n *node) live.Attr {
	size := int64(len(n.content))
	if n.log != nil {
		size = n.shown
	}
	a := live.Attr{
		ID: n.id, Mode: n.mode, Nlink: 1, Size: size, Blocks: (size + 511) / 512,
		Atime: n.mtime, Mtime: n.mtime, Ctime: n.mtime, Btime: n.mtime,
	}
	if n.scratch {
		a.UID, a.GID = n.owner.UID, n.owner.GID
	} else if root, err := c.fs.forest.GetAttr(n.ws.Root()); err == nil {
		a.UID, a.GID = root.UID, root.GID
		if n.mode&0o200 != 0 && n.key.name != policyName {
			a.Mode |= root.Mode & 0o222 // who may change the tree may give commands
		}
	}
	return a
}

// get returns a file that the kernel holds.
func (c *control) get(id live.NodeID) (*node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.mu.nodes[id]; ok {
		return n, nil
	}
	return nil, live.ErrStale
}

// forget drops a file that the kernel holds no more.
func (c *control) forget(id live.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.mu.nodes[id]
	if !ok || c.fs.lookups.held(id) {
		return
	}
	if n.scratch && c.mu.current[n.key] == n {
		return // it has a name
	}
	delete(c.mu.nodes, id)
	if c.mu.current[n.key] == n {
		delete(c.mu.current, n.key)
	}
}

func (c *control) getAttr(id live.NodeID, out *fuse.AttrOut) fuse.Status {
	if id.Ino() < classListed {
		a, err := c.dirAttr(id)
		if err != nil {
			return c.fs.status("getattr", id, err)
		}
		fillAttr(&out.Attr, &a)
		out.SetTimeout(named)
		return fuse.OK
	}
	n, err := c.get(id)
	if err != nil {
		return c.fs.status("getattr", id, err)
	}
	c.freshen(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attrLocked(n)
	fillAttr(&out.Attr, &a)
	return fuse.OK
}

// freshen notices that a log has grown, and drops its last page, which the
// kernel believes to end in zeros. As that also makes the kernel distrust the
// answer that is under way, it asks for the size once more before it reads.
func (c *control) freshen(n *node) {
	if n.log == nil {
		return
	}
	if from, grown := c.grown(n); grown {
		c.fs.notify.dropNow(n.id, from)
	}
}

// grown takes note of the size of a log. from is where the page begins that was the
// last one.
func (c *control) grown(n *node) (from int64, grown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := n.log.Size()
	from, grown = n.shown&^4095, size != n.shown
	n.shown = size
	return from, grown
}

// setAttr accepts what opening for writing and touch do, and changes nothing:
// the file will say what its next command results in.
func (c *control) setAttr(id live.NodeID, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, err := c.get(id)
	if err != nil {
		return fuse.EPERM
	}
	if in.Valid&(fuse.FATTR_MODE|fuse.FATTR_UID|fuse.FATTR_GID) != 0 && !n.scratch {
		return fuse.EPERM
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, ok := in.GetMode(); ok {
		n.mode = typeFile | m
	}
	size, truncate := in.GetSize()
	if truncate && n.mode&0o200 == 0 {
		return fuse.EPERM
	}
	if truncate && n.scratch {
		if size > maxScratch {
			return fuse.Status(syscall.EFBIG)
		}
		n.content = resize(n.content, int(size))
	}
	a := c.attrLocked(n)
	if truncate {
		n.partial = nil
		n.cached = n.cached && size > 0
		a.Size = int64(size)
	}
	fillAttr(&out.Attr, &a)
	return fuse.OK
}

func (c *control) readlink(id live.NodeID) ([]byte, fuse.Status) {
	n, err := c.get(id)
	if err != nil {
		return nil, c.fs.status("readlink", id, err)
	}
	return n.content, fuse.OK
}

func (c *control) read(id live.NodeID, buf []byte, off int64) (fuse.ReadResult, fuse.Status) {
	n, err := c.get(id)
	if err != nil {
		return nil, c.fs.status("read", id, err)
	}
	if n.log != nil {
		got := 0
		if size := n.log.Size(); off < size {
			got, err = n.log.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
			if err != nil && got == 0 {
				return nil, c.fs.status("read", id, err)
			}
		}
		return inPlace(buf[:got]), fuse.OK
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n.cached = true
	if off >= int64(len(n.content)) {
		return inPlace(nil), fuse.OK
	}
	return inPlace(buf[:copy(buf, n.content[off:])]), fuse.OK
}

// seek answers for a file without holes.
func (c *control) seek(id live.NodeID, off int64, whence int, out *fuse.LseekOut) fuse.Status {
	n, err := c.get(id)
	if err != nil {
		return c.fs.status("lseek", id, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	size := c.attrLocked(n).Size
	if off < 0 || off >= size {
		return fuse.Status(syscall.ENXIO)
	}
	out.Offset = uint64(off)
	if whence == unix.SEEK_HOLE {
		out.Offset = uint64(size)
	}
	return fuse.OK
}

func resize(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size:size]
	}
	return append(b[:len(b):len(b)], make([]byte, size-len(b))...)
}
