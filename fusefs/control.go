package fusefs

import (
	"bytes"
	"slices"
	"sync"
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
		large   []*node               // with much content, oldest first
		scratch []*node               // scratch files, oldest first, also some without a name
		next    uint64
	}
}

// A fileKey names a file of a workspace's .snapshots.
type fileKey struct {
	view uint32
	name string
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
func (c *control) publish(ws *snapshot.Workspace, name string, mode uint32, content []byte, of subject, out *fuse.EntryOut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fileKey{ws.View(), name}
	n := c.mu.current[key]
	if n == nil || n.mode != mode || !bytes.Equal(n.content, content) {
		n = c.addLocked(ws, name, mode)
		n.content = content
		c.crowdLocked(n)
	}
	n.of = of
	c.answerNodeLocked(n, out)
}

const (
	// largeContent is what a file must have at least to be counted, in bytes.
	largeContent = 64 << 10
	// maxLarge bounds what such files have together. Beyond, the kernel is asked to
	// forget the oldest, which else it keeps until it needs memory itself.
	maxLarge = 128 << 20
)

// crowdLocked counts a new file in, and makes room.
func (c *control) crowdLocked(n *node) {
	if len(n.content) < largeContent {
		return
	}
	total := int64(0)
	c.mu.large = slices.DeleteFunc(append(c.mu.large, n), func(n *node) bool {
		_, held := c.mu.nodes[n.id]
		if held {
			total += int64(len(n.content))
		}
		return !held
	})
	var inv live.Invalidation
	for total > maxLarge && len(c.mu.large) > 1 {
		oldest := c.mu.large[0]
		c.mu.large = c.mu.large[1:]
		total -= int64(len(oldest.content))
		inv.Entries = append(inv.Entries, live.Entry{Parent: snapshotsID(oldest.key.view), Name: oldest.key.name})
	}
	c.fs.notify.later(inv)
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
