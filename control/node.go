package control

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A node is a generated file or symlink, or a scratch file. Tree.mu guards what
// changes.
type node struct {
	id   live.NodeID
	dir  *directory
	name string
	// owner, if set, is whose the file is; others belong to the workspace's owner.
	owner   *live.Caller
	scratch bool
	log     *events.Reader // of the event log, whose node stays while it grows

	held    uint64 // how often the kernel was given it and has not forgotten it
	mode    uint32
	mtime   int64   // ns
	logSize int64   // the size of the log that the kernel knows
	of      subject // what content was made from
	content *content
	cached  bool // the kernel may have pages of it
}

// publish answers with the node that shows content under a name: the present one if
// it says the same, else a new one. The reference to the content goes to it.
func (t *Tree) publish(ws *snapshot.Workspace, name string, mode uint32, c *content, of subject, owner *live.Caller) Entry {
	root := t.rootAttr(ws)
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirLocked(ws)
	n := d.current[name]
	if n != nil && n.mode == mode && n.content.equal(c) {
		c.release()
	} else {
		n = t.addLocked(d, name, mode)
		n.content, n.owner = c, owner
		t.keepLocked(n)
	}
	n.of = of
	return n.entryLocked(root)
}

func (t *Tree) addLocked(d *directory, name string, mode uint32) *node {
	t.mu.last++
	n := &node{id: live.Node(ownView, kindFile|t.mu.last), dir: d, name: name, mode: mode, mtime: now()}
	t.mu.nodes[n.id] = n
	d.current[name] = n
	return n
}

// current returns the newest node of a name, nil if the kernel knows none.
func (t *Tree) current(ws *snapshot.Workspace, name string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dirLocked(ws).current[name]
}

// answer is the entry of a node that has a name.
func (t *Tree) answer(n *node) Entry {
	root := t.rootAttr(n.dir.ws)
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.entryLocked(root)
}

// entryLocked counts that the kernel holds a node from now on.
func (n *node) entryLocked(root live.Attr) Entry {
	n.held++
	return Entry{Attr: n.attrLocked(root)}
}

// rootAttr returns the attributes of a workspace's root, which tell whose its control
// files are. Those of nobody are root's.
func (t *Tree) rootAttr(ws *snapshot.Workspace) live.Attr {
	a, _ := t.waitAttr(ws.Root())
	return a
}

func (n *node) attrLocked(root live.Attr) live.Attr {
	size := n.content.Size()
	if n.log != nil {
		size = n.logSize
	}
	a := live.Attr{
		ID: n.id, Mode: n.mode, UID: root.UID, GID: root.GID, Nlink: 1, Size: size, Blocks: (size + 511) / 512,
		Atime: n.mtime, Mtime: n.mtime, Ctime: n.mtime, Btime: n.mtime,
	}
	if n.owner != nil {
		a.UID, a.GID = n.owner.UID, n.owner.GID
	} else if isShared(n.name) {
		a.Mode |= root.Mode & 0o222
	}
	return a
}

// get returns a file that the kernel holds.
func (t *Tree) get(id live.NodeID) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.mu.nodes[id]; ok {
		return n, nil
	}
	return nil, live.ErrStale
}

// Forget takes back that the kernel was given a node so many times.
func (t *Tree) Forget(id live.NodeID, times uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.mu.nodes[id]
	if !ok {
		return
	}
	n.held -= min(times, n.held)
	if n.held > 0 || n.scratch && n.dir.current[n.name] == n {
		return
	}
	t.removeLocked(n)
}

func (t *Tree) removeLocked(n *node) {
	delete(t.mu.nodes, n.id)
	if n.dir.current[n.name] == n {
		delete(n.dir.current, n.name)
	}
	n.content.release()
	n.dir.tenant.large = without(n.dir.tenant.large, n)
	n.dir.tenant.partials = slices.DeleteFunc(n.dir.tenant.partials, func(p *partial) bool { return p.node == n })
}

// GetAttr returns the attributes of a node. Those of a directory may be trusted for
// Brief, those of a file not at all.
func (t *Tree) GetAttr(id live.NodeID) (live.Attr, error) {
	if IsDir(id) {
		return t.dirAttr(id)
	}
	n, err := t.get(id)
	if err != nil {
		return live.Attr{}, err
	}
	t.followLog(n)
	root := t.rootAttr(n.dir.ws)
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.attrLocked(root), nil
}

// SetAttr accepts what opening for writing and touch do, and changes nothing: the file
// will say what its next command results in.
func (t *Tree) SetAttr(id live.NodeID, s live.SetAttr, who live.Caller) (live.Attr, error) {
	n, err := t.get(id)
	if err != nil || n.owner == nil && (s.Mode != nil || s.UID != nil || s.GID != nil) {
		return live.Attr{}, live.ErrPerm
	}
	if s.Size != nil {
		t.dropPartial(n, who)
	}
	root := t.rootAttr(n.dir.ws)
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Mode != nil && n.scratch {
		n.mode = typeFile | *s.Mode&0o777
	}
	if s.Size == nil {
		return n.attrLocked(root), nil
	}
	if err := n.truncateLocked(*s.Size); err != nil {
		return live.Attr{}, err
	}
	a := n.attrLocked(root)
	a.Size = *s.Size
	return a, nil
}

func (n *node) truncateLocked(size int64) error {
	switch {
	case n.mode&0o200 == 0:
		return live.ErrPerm
	case n.scratch && size > maxScratch:
		return live.ErrTooBig
	case n.scratch:
		n.content = small(resize(n.content.bytes(), int(size)))
	}
	n.cached = n.cached && size > 0
	return nil
}

func resize(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size:size]
	}
	return append(b[:len(b):len(b)], make([]byte, size-len(b))...)
}

// Readlink returns where a symlink leads.
func (t *Tree) Readlink(id live.NodeID) (string, error) {
	n, err := t.get(id)
	if err != nil {
		return "", err
	}
	return string(n.content.bytes()), nil
}

// ReadAt reads up to len(p) bytes at an offset, less at the end of the file.
func (t *Tree) ReadAt(id live.NodeID, p []byte, off int64) (int, error) {
	n, err := t.get(id)
	if err != nil {
		return 0, err
	}
	if n.log != nil {
		return readLog(n.log, p, off)
	}
	t.mu.Lock()
	n.cached = true
	c := n.content.retain()
	t.mu.Unlock()
	defer t.release(c)
	return c.ReadAt(p, off)
}

func (t *Tree) release(c *content) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.release()
}

// Seek answers SEEK_DATA and SEEK_HOLE for a file without holes.
func (t *Tree) Seek(id live.NodeID, off int64, whence int) (int64, error) {
	a, err := t.GetAttr(id)
	switch {
	case err != nil:
		return 0, err
	case a.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		return 0, live.ErrInvalid
	case off < 0 || off >= a.Size:
		return 0, live.ErrNoData
	case whence == unix.SEEK_HOLE:
		return a.Size, nil
	}
	return off, nil
}
