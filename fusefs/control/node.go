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

// A slot is a name in .snapshots, as one user sees it: a file that shows answers shows
// each user those to its own requests, and the owner of the workspace all.
type slot struct {
	name string
	user int64 // its number, or anybody
}

// anybody is the user of what all see, and of what only the owner sees.
const anybody = -1

// A node is a generated file or symlink, or a private file. Tree.mu guards what changes.
type node struct {
	id   live.NodeID
	dir  *directory
	slot slot
	// owner, if set, owns the file; others belong to the workspace's owner.
	owner *actors.Caller
	kind  nodeKind
	log   *events.Reader // of the event log, whose node stays while it grows

	place *list.Element // in the tenant's nodes, nil once it was removed
	size  int64         // as it is charged

	kernelRefs uint64 // how often the kernel was given it and has not forgotten it
	mode       uint32
	mtime      int64  // ns
	logSize    int64  // the size of the log that the kernel knows
	source     source // what the content was made from
	content    *content
	same       *node // the newest node of the name, whose content this one shows
	begin      int64 // of the content in the file: blanks come before it, see Tree.Write
	partials   []partial
	cached     bool // the kernel may have pages of it
}

// A nodeKind says what becomes of a node.
type nodeKind int

const (
	// rendered files are removed when the kernel forgets them.
	rendered nodeKind = iota
	// An answer stays until there is another one, or room is needed.
	answer
	// A scratch file collects a command, which runs when the file is renamed.
	scratch
	// A call file takes a request, which runs when it is complete.
	callFile
)

func (n *node) private() bool { return n.kind == scratch || n.kind == callFile }

func (n *node) sizeLocked() int64 {
	size := n.content.Size()
	for _, p := range n.partials {
		size += partialCost + int64(len(p.line))
	}
	return size
}

func (n *node) shown() *content {
	if n.same != nil {
		return n.same.content
	}
	return n.content
}

// publish answers with the node that shows what was written under a name: the present
// one if it shows the same, else a new one. It ends the writer.
func (t *Tree) publish(ws *snapshot.Workspace, name string, mode uint32, w *contentWriter, of source) Entry {
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
	n.source = of
	return n.entryLocked(root)
}

// current returns the newest node of a slot, nil if there is none.
func (t *Tree) current(ws *snapshot.Workspace, s slot) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dirLocked(ws).current[s]
}

func (t *Tree) entry(n *node) Entry {
	root := t.rootAttr(n.dir.ws)
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.entryLocked(root)
}

// entryLocked counts that the kernel holds a node from now on.
func (n *node) entryLocked(root live.Attr) Entry {
	n.kernelRefs++
	n.usedLocked()
	return Entry{Attr: n.attrLocked(root)}
}

// rootAttr returns the attributes of a workspace's root, whose owner owns its control
// files. Those of a workspace that has ended are root's.
func (t *Tree) rootAttr(ws *snapshot.Workspace) live.Attr {
	a, _ := t.waitAttr(ws.Root())
	return a
}

// slotOf is the slot in which a caller sees the answers of a file.
func (t *Tree) slotOf(ws *snapshot.Workspace, name string, who actors.Caller) slot {
	if who.OwnsStore() || t.rootAttr(ws).UID == who.UID {
		return slot{name, anybody}
	}
	return slot{name, int64(who.UID)}
}

func (n *node) attrLocked(root live.Attr) live.Attr {
	size := n.begin + n.shown().Size()
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

func (t *Tree) get(id live.NodeID) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.mu.nodes[id]; ok {
		return n, nil
	}
	return nil, errs.Stale
}

// Forget takes back that the kernel was given a node so many times.
func (t *Tree) Forget(id live.NodeID, times uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.mu.nodes[id]
	if !ok {
		return
	}
	n.kernelRefs -= min(times, n.kernelRefs)
	if n.kernelRefs == 0 && (n.kind == rendered || n.dir.current[n.slot] != n) {
		t.removeLocked(n)
	}
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
// will show the result of its next command.
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
	if s.Mode != nil && n.kind == scratch {
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

func (t *Tree) truncateLocked(n *node, size int64) error {
	switch {
	case n.mode&0o200 == 0:
		return errs.Perm
	case n.kind == scratch && size > maxScratch:
		return errs.TooBig
	case n.kind == scratch:
		n.content = small(resized(n.content.all(), int(size)))
		t.resizeLocked(n)
	}
	n.cached = n.cached && size > 0
	return nil
}

func resized(b []byte, size int) []byte {
	out := make([]byte, size)
	copy(out, b)
	return out
}

func (t *Tree) Readlink(id live.NodeID) (string, error) {
	n, err := t.get(id)
	if err != nil {
		return "", err
	}
	return string(n.content.all()), nil
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
	n.usedLocked()
	c, begin, stale := n.shown(), n.begin, n.same != nil && n.same.place == nil
	t.mu.Unlock()
	if stale {
		return 0, errs.Stale
	}
	blanks := p[:max(0, min(int64(len(p)), begin-off))]
	for i := range blanks {
		blanks[i] = ' '
	}
	p = p[len(blanks):]
	return len(blanks) + c.ReadAt(p, max(off, begin)-begin), nil
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
