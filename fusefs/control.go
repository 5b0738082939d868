package fusefs

import (
	"bytes"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// The control directories, found in the root of every workspace.
const (
	snapshotsName = ".snapshots"
	forksName     = ".forks"
)

// controlView is the view that the forest leaves to us. Of the 36 bits of its
// inode numbers the upper four tell the kind of node.
const controlView = live.MaxView + 1

const (
	classShiftBits = 32
	classSnapshots = 1 << classShiftBits // + view of the workspace
	classForks     = 2 << classShiftBits // + view of the workspace
	classListed    = 3 << classShiftBits // + index; only seen in listings
	classFile      = 8 << classShiftBits // + a counter of 35 bits
)

// named is how long the kernel may trust the name of a snapshot or fork, and
// the attributes of a control directory. What is done through the mount it
// knows at once; mkdir and rename ask in any case (LOOKUP_EXCL). This bounds
// how long what the daemon or the command line did by itself goes unnoticed.
const named = time.Second

func isControl(id live.NodeID) bool { return id.View() == controlView }

func isControlDir(name string) bool { return name == snapshotsName || name == forksName }

func snapshotsID(view uint32) live.NodeID {
	return live.Node(controlView, classSnapshots|uint64(view))
}

func forksID(view uint32) live.NodeID { return live.Node(controlView, classForks|uint64(view)) }

// A control answers the requests of the control tree.
//
// A control file is an ordinary cached file to the kernel, as OPEN never
// reaches us: what it says is rendered when its name is looked up, and what
// says something else is another node. Names and attributes of files are never
// remembered by the kernel (timeout 0), so every open sees the present.
type control struct {
	fs *filesystem

	// home is the view of the workspace (uint32) by view of each snapshot
	// that was looked up.
	home sync.Map

	mu struct {
		sync.Mutex
		nodes   map[live.NodeID]*node // what the kernel may hold
		current map[fileKey]*node     // the newest node of each name
		results map[fileKey][]byte    // what the last command of a file said
		touched map[uint32]int64      // when (ns) the last command ran, by view of the workspace
		next    uint64
	}
}

// A fileKey names a file of a workspace's .snapshots.
type fileKey struct {
	view uint32
	name string
}

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

	shown   int64 // the size of the log that the kernel knows
	content []byte
	partial []byte // the beginning of a command that came in several writes
	cached  bool   // the kernel may have pages of it
}

func newControl(fs *filesystem) *control {
	c := &control{fs: fs}
	c.mu.nodes = make(map[live.NodeID]*node)
	c.mu.current = make(map[fileKey]*node)
	c.mu.results = make(map[fileKey][]byte)
	c.mu.touched = make(map[uint32]int64)
	return c
}

// reserved reports whether the root of a view has control directories, which
// those of snapshots have not.
func (c *control) reserved(root live.NodeID) bool {
	_, ok := c.fs.store.Workspace(root.View())
	return ok
}

// lookupRoot finds a control directory in the root of a view; ok is false when
// the root has none.
func (c *control) lookupRoot(root live.NodeID, name string, out *fuse.EntryOut) (ok bool, st fuse.Status) {
	if !c.reserved(root) {
		return false, fuse.OK
	}
	id := snapshotsID(root.View())
	if name == forksName {
		id = forksID(root.View())
	}
	a, err := c.dirAttr(id)
	if err != nil {
		return true, c.fs.status("lookup", id, err)
	}
	c.answer(out, &a, cached)
	out.SetAttrTimeout(named)
	return true, fuse.OK
}

// answer fills in an entry whose attributes are asked for again each time.
func (c *control) answer(out *fuse.EntryOut, a *live.Attr, entryTimeout time.Duration) {
	out.NodeId = uint64(a.ID)
	fillAttr(&out.Attr, a)
	out.SetEntryTimeout(entryTimeout)
	out.SetAttrTimeout(0)
	c.fs.lookups.add(a.ID)
}

// workspace returns the workspace that a control directory belongs to.
func (c *control) workspace(dir live.NodeID) (ws *snapshot.Workspace, forks bool, err error) {
	ws, ok := c.fs.store.Workspace(uint32(dir.Ino()))
	switch class := dir.Ino() >> classShiftBits << classShiftBits; {
	case ok && class == classSnapshots:
		return ws, false, nil
	case ok && class == classForks:
		return ws, true, nil
	}
	return nil, false, live.ErrStale
}

// publish returns the node that shows content under a name: the present one if
// it says the same, else a new one. The kernel holds it then.
func (c *control) publish(ws *snapshot.Workspace, name string, mode uint32, content []byte, out *fuse.EntryOut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fileKey{ws.View(), name}
	n := c.mu.current[key]
	if n == nil || n.mode != mode || !bytes.Equal(n.content, content) {
		n = c.addLocked(ws, name, mode)
		n.content = content
	}
	c.answerNodeLocked(n, out)
}

func (c *control) addLocked(ws *snapshot.Workspace, name string, mode uint32) *node {
	c.mu.next++
	n := &node{
		id: live.Node(controlView, classFile|c.mu.next), key: fileKey{ws.View(), name},
		ws: ws, mode: mode, mtime: timeNow(),
	}
	c.mu.nodes[n.id] = n
	c.mu.current[n.key] = n
	return n
}

func (c *control) answerNodeLocked(n *node, out *fuse.EntryOut) {
	a := c.attrLocked(n)
	c.answer(out, &a, 0)
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
	c.mu.Lock()
	size, from := n.log.Size(), n.shown&^4095
	grown := size != n.shown
	n.shown = size
	c.mu.Unlock()
	if grown {
		c.fs.notify.dropNow(n.id, from)
	}
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
		return fuse.ReadResultData(buf[:got]), fuse.OK
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n.cached = true
	if off >= int64(len(n.content)) {
		return fuse.ReadResultData(nil), fuse.OK
	}
	return fuse.ReadResultData(buf[:copy(buf, n.content[off:])]), fuse.OK
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
	if whence == seekHole {
		out.Offset = uint64(size)
	}
	return fuse.OK
}

const seekHole = 4 // SEEK_HOLE of lseek(2)

func resize(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size:size]
	}
	return append(b[:len(b):len(b)], make([]byte, size-len(b))...)
}
