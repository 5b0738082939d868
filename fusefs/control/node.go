package control

import (
	"container/list"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A slot is a name in .snapshots for one user. A file with answers has a node for each user, with the
// answers to the user's commands, and one for the workspace's owner, with all answers.
type slot struct {
	name string
	user int64 // the user id, or anybody
}

// anybody is the user of files that are the same for all users, and of the owner's answers.
const anybody = -1

// A node is a generated file or symlink, or a private file. Tree.mu guards its fields that change.
type node struct {
	id   live.NodeID
	dir  *directory
	slot slot
	// owner is the owner of a private file. Other files belong to the workspace's owner, and it is nil.
	owner *actors.Caller
	kind  nodeKind
	log   *events.Reader // for the event log

	element *list.Element // in the tenant's nodes, nil after the node was removed
	size    int64         // bytes that are charged

	kernelRefs uint64 // lookups that returned the node, less the lookups that the kernel has forgotten
	mode       uint32
	mtime      int64  // ns
	logSize    int64  // the size of the log in the last answer to the kernel
	source     source // from which the content was rendered
	content    *content
	newer      *node // if set, a newer node of the slot with the content of this node
	blanks     int64 // the number of blanks before the content, see Tree.Write
	partials   []partial
	commands   int  // that were written to the node and run
	cached     bool // the kernel may have pages of the content
}

// A nodeKind is the kind of a node, which determines when it is removed.
type nodeKind int

const (
	// nodeRendered is for generated files, which are removed when the kernel forgets them.
	nodeRendered nodeKind = iota
	// nodeAnswer is for a file with an answer, which stays until there is a newer answer.
	nodeAnswer
	// nodeScratch is for a scratch file, whose command runs when the file is renamed.
	nodeScratch
	// nodeCall is for a call file, whose request runs when it is complete.
	nodeCall
)

func (n *node) private() bool { return n.kind == nodeScratch || n.kind == nodeCall }

// sizeLocked returns the bytes to charge for a node.
func (n *node) sizeLocked() int64 {
	size := n.content.Size()
	for _, p := range n.partials {
		size += partialCost + int64(len(p.line))
	}
	return size
}

// contentLocked returns the content of the node, which a newer node may have.
func (n *node) contentLocked() *content {
	if n.newer != nil {
		return n.newer.content
	}
	return n.content
}

// publish returns the node of a name with the content of w: the present node if it has an equal content,
// else a new one. It ends the writer.
func (t *Tree) publish(ws *snapshot.Workspace, name string, mode uint32, w *contentWriter, from source) Entry {
	root := t.rootAttr(ws)
	t.mu.Lock()
	defer t.mu.Unlock()

	c := w.releaseLocked()
	d := t.dirLocked(ws)
	s := slot{name, anybody}
	n := d.current[s]
	if n == nil || n.mode != mode || !n.content.equal(c) {
		n = t.addLocked(d, s, &node{mode: mode, content: c})
	}

	n.source = from
	return n.entryLocked(root)
}

// current returns the newest node of a slot, nil if there is none.
func (t *Tree) current(ws *snapshot.Workspace, s slot) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dirLocked(ws).current[s]
}

// entry returns a node as the answer to a lookup.
func (t *Tree) entry(n *node) Entry {
	root := t.rootAttr(n.dir.ws)
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.entryLocked(root)
}

// entryLocked returns a node as the answer to a lookup, and counts the kernel's reference to it. root
// has the attributes of the workspace's root.
func (n *node) entryLocked(root live.Attr) Entry {
	n.kernelRefs++
	n.touchLocked()
	return Entry{Attr: n.attrLocked(root)}
}

// rootAttr returns the attributes of a workspace's root, whose owner is the owner of its control files.
// They are zero if the workspace has ended, so that its files belong to root.
func (t *Tree) rootAttr(ws *snapshot.Workspace) live.Attr {
	a, _ := t.waitAttr(ws.Root())
	return a
}

// slotOf returns the slot of a file with the answers that a caller may see.
func (t *Tree) slotOf(ws *snapshot.Workspace, name string, who actors.Caller) slot {
	if who.OwnsStore() || t.rootAttr(ws).UID == who.UID {
		return slot{name, anybody}
	}
	return slot{name, int64(who.UID)}
}

func (n *node) attrLocked(root live.Attr) live.Attr {
	size := n.blanks + n.contentLocked().Size()
	if n.log != nil {
		size = n.logSize
	}

	a := live.Attr{
		ID: n.id, Mode: n.mode, UID: root.UID, GID: root.GID, Nlink: 1, Size: size, Blocks: (size + 511) / 512,
		Atime: n.mtime, Mtime: n.mtime, Ctime: n.mtime, Btime: n.mtime,
	}
	if n.owner != nil {
		a.UID, a.GID = n.owner.UID, n.owner.GID
	} else if isShared(n.slot.name) {
		a.Mode |= root.Mode & 0o222
	}

	return a
}

// get returns the node with an id. The error is errs.Stale if the node was removed.
func (t *Tree) get(id live.NodeID) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.mu.nodes[id]; ok {
		return n, nil
	}
	return nil, errs.Stale
}

// Forget subtracts references of the kernel to a node, which it has forgotten.
func (t *Tree) Forget(id live.NodeID, times uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()

	n, ok := t.mu.nodes[id]
	if !ok {
		return
	}

	n.kernelRefs -= min(times, n.kernelRefs)
	if n.kernelRefs == 0 && (n.kind == nodeRendered || n.dir.current[n.slot] != n) {
		t.removeLocked(n)
	}
}

// GetAttr returns the attributes of a node. The kernel may cache the attributes of a directory for
// Brief. It must not cache the attributes of a file.
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

// SetAttr accepts the changes that open(2) with O_TRUNC and touch make, without an effect on control
// files. A scratch file can be truncated, and its mode can be changed.
func (t *Tree) SetAttr(id live.NodeID, s live.SetAttr, who actors.Caller) (live.Attr, error) {
	if IsDir(id) {
		return live.Attr{}, errs.Perm
	}
	n, err := t.get(id)
	if err != nil {
		return live.Attr{}, err
	}
	if n.owner == nil && (s.Mode != nil || s.UID != nil || s.GID != nil) {
		return live.Attr{}, errs.Perm
	}
	if s.Size != nil {
		t.dropPartial(n, who)
	}

	root := t.rootAttr(n.dir.ws)
	t.mu.Lock()
	defer t.mu.Unlock()

	if s.Mode != nil && n.kind == nodeScratch {
		n.mode = typeFile | *s.Mode&0o777
	}
	if s.Size == nil {
		return n.attrLocked(root), nil
	}
	if err := t.truncateLocked(n, *s.Size); err != nil {
		return live.Attr{}, err
	}

	a := n.attrLocked(root)
	a.Size = *s.Size
	return a, nil
}

// truncateLocked truncates a scratch file, and checks that other files can be written.
func (t *Tree) truncateLocked(n *node, size int64) error {
	switch {
	case n.mode&0o200 == 0:
		return errs.Perm
	case n.kind == nodeScratch && size > maxScratch:
		return errs.TooBig
	case n.kind == nodeScratch:
		n.content = newContentOf(resize(n.content.all(), int(size)))
		t.resizeLocked(n)
	}

	n.cached = n.cached && size > 0
	return nil
}

// resize returns a copy of b with another size. Further bytes are zero.
func resize(b []byte, size int) []byte {
	out := make([]byte, size)
	copy(out, b)
	return out
}

// Readlink returns the target of a symlink.
func (t *Tree) Readlink(id live.NodeID) (string, error) {
	n, err := t.get(id)
	if err != nil {
		return "", err
	}
	return string(n.content.all()), nil
}

// ReadAt reads up to len(p) bytes at an offset. At the end of the file it reads fewer.
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
	n.touchLocked()
	c, blanks, stale := n.contentLocked(), n.blanks, n.newer != nil && n.newer.element == nil
	t.mu.Unlock()
	switch {
	case stale:
		return 0, errs.Stale
	case c == lostAnswer:
		return 0, errUnanswered
	}

	before := p[:max(0, min(int64(len(p)), blanks-off))]
	for i := range before {
		before[i] = ' '
	}

	p = p[len(before):]
	return len(before) + c.ReadAt(p, max(off, blanks)-blanks), nil
}

// Seek answers SEEK_DATA and SEEK_HOLE for a file without holes.
func (t *Tree) Seek(id live.NodeID, off int64, whence int) (int64, error) {
	a, err := t.GetAttr(id)
	switch {
	case err != nil:
		return 0, err
	case a.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		return 0, errs.Invalid
	case off < 0 || off >= a.Size:
		return 0, errs.NoData
	case whence == unix.SEEK_HOLE:
		return a.Size, nil
	}

	return off, nil
}
