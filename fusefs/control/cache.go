package control

import (
	"io"
	"maps"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// The nodes of generated files, answers, scratch files and call files are in one cache. Each tenant has
// a part of it. If a part is full, the node that was used least recently is removed: requests for it
// fail with ESTALE, and the next lookup of its name renders the file again. Answers and scratch files
// cannot be rendered again, and are lost.
const (
	// forkCacheBytes is the size of the part of the cache for a fork of main and all forks in it.
	forkCacheBytes = 8 << 20
	// mainCacheBytes is the size of the part of the cache for main.
	mainCacheBytes = 64 << 20
	// maxTenantNodes is the largest number of nodes that one tenant may have in the cache.
	maxTenantNodes = 1024
	// maxTotalBytes limits the bytes of all tenants together. If there are more, nodes of the largest tenants
	// are removed.
	maxTotalBytes = 128 << 20
)

// limits has the values of the constants above; tests set other values.
type limits struct {
	forkBytes, mainBytes, totalBytes int64
	tenantNodes                      int
}

// A cache has the nodes, directories and tenants of a Tree.
type cache struct {
	store  *snapshot.Store
	limits limits

	mu struct {
		sync.Mutex
		nodes      map[live.NodeID]node
		dirs       map[uint32]*directory // by view of the workspace
		tenants    map[uint32]*tenant    // by view of the tenant's outermost workspace
		lastNumber uint64                // number of the newest node, see firstFileNumber
		bytes      int64                 // the bytes of all tenants together
	}
}

func newCache(s *snapshot.Store) *cache {
	c := &cache{store: s, limits: limits{forkBytes: forkCacheBytes, mainBytes: mainCacheBytes, totalBytes: maxTotalBytes, tenantNodes: maxTenantNodes}}
	c.mu.nodes, c.mu.lastNumber = make(map[live.NodeID]node), firstFileNumber()
	c.mu.dirs, c.mu.tenants = make(map[uint32]*directory), make(map[uint32]*tenant)
	return c
}

// chargeLocked adds bytes, which may be negative, to the bytes that a tenant has in the cache.
func (c *cache) chargeLocked(k *tenant, bytes int64) {
	k.chargedBytes += bytes
	c.mu.bytes += bytes
}

// reserve reserves addedBytes in a tenant's part of the cache for a content, for which reservedBytes are
// reserved already. To make room, reserve removes other nodes. It fails with errs.TooBig if the content is
// larger than the part, and with errs.Quota if too many bytes are reserved for contents that are being written.
func (c *cache) reserve(k *tenant, reservedBytes, addedBytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	switch {
	case reservedBytes+addedBytes > k.maxBytes-maxCommandBytes:
		// maxCommandBytes are left for the command that asked for the content.
		return errs.New(errs.TooBig, "the text is larger than %d MiB, the limit for control files of this workspace; name paths, or use the command line",
			(k.maxBytes-maxCommandBytes)>>20)
	case k.reservedBytes+addedBytes > k.maxBytes:
		return errs.New(errs.Quota, "limit reached: texts being generated for this workspace take %d MiB already; try again", k.maxBytes>>20)
	}

	k.reservedBytes += addedBytes
	c.chargeLocked(k, addedBytes)
	c.trimLocked(k)

	if c.mu.bytes > c.limits.totalBytes {
		k.reservedBytes -= addedBytes
		c.chargeLocked(k, -addedBytes)
		return errs.New(errs.Quota, "limit reached: texts being generated for all workspaces take %d MiB already; try again", c.limits.totalBytes>>20)
	}

	return nil
}

// rechargeLocked charges a node that is new, or whose size has changed, and makes room for it. It ignores
// a node that was removed.
func (c *cache) rechargeLocked(n node) {
	f := n.core()
	if f.element == nil {
		return
	}
	k, size := f.dir.tenant, n.memoryLocked()
	c.chargeLocked(k, size-f.chargedBytes)
	f.chargedBytes = size
	k.nodes.MoveToFront(f.element)
	c.trimLocked(k)
}

// trimLocked removes the least recently used nodes of a tenant while it is over its limits. Then it removes
// nodes of the largest tenants while all tenants together are over the limit.
func (c *cache) trimLocked(k *tenant) {
	for k.nodes.Len() > 0 && (k.chargedBytes > k.maxBytes || k.nodes.Len() > c.limits.tenantNodes) {
		c.removeLocked(k.oldestNode())
	}

	for c.mu.bytes > c.limits.totalBytes {
		var largest *tenant
		for _, k := range c.mu.tenants {
			if k.nodes.Len() > 0 && (largest == nil || k.chargedBytes > largest.chargedBytes) {
				largest = k
			}
		}
		if largest == nil {
			return
		}
		c.removeLocked(largest.oldestNode())
	}
}

func (k *tenant) oldestNode() node { return k.nodes.Back().Value.(node) }

// addLocked makes n, a new node, the node of a key. The key's old node is removed, unless the kernel has a
// reference to it.
func (c *cache) addLocked(d *directory, s nodeKey, n node) {
	c.mu.lastNumber++
	f := n.core()
	f.id, f.dir, f.key, f.mtime = fileID(c.mu.lastNumber, isPrivateFile(n)), d, s, now()
	if old := d.nodes[s]; old != nil && old.core().kernelRefs == 0 {
		c.removeLocked(old)
	}

	d.nodes[s] = n
	c.insertLocked(n)
}

// insertLocked inserts a node that has its id and directory.
func (c *cache) insertLocked(n node) {
	f := n.core()
	c.mu.nodes[f.id] = n
	f.element = f.dir.tenant.nodes.PushFront(n)
	c.rechargeLocked(n)
}

// removeLocked removes a node. Later requests of the kernel for it fail with ESTALE.
func (c *cache) removeLocked(n node) {
	f := n.core()
	if f.element == nil {
		return
	}
	f.dir.tenant.nodes.Remove(f.element)
	f.element = nil
	c.chargeLocked(f.dir.tenant, -f.chargedBytes)
	delete(c.mu.nodes, f.id)
	unnameLocked(n)
}

// unnameLocked removes the node's name, unless the name belongs to a newer node. The node stays in the cache.
func unnameLocked(n node) {
	if f := n.core(); f.dir.nodes[f.key] == n {
		delete(f.dir.nodes, f.key)
	}
}

// dropNameLocked removes the name of the key's node. It also removes the node, unless the kernel has a
// reference to it.
func (c *cache) dropNameLocked(d *directory, s nodeKey) {
	n := d.nodes[s]
	if n == nil {
		return
	}

	unnameLocked(n)
	if n.core().kernelRefs == 0 {
		c.removeLocked(n)
	}
}

// renameLocked gives a node another key. It drops the name of the node that had this key.
func (c *cache) renameLocked(n node, newKey nodeKey) {
	f := n.core()
	c.dropNameLocked(f.dir, newKey)
	unnameLocked(n)
	f.key = newKey
	f.dir.nodes[newKey] = n
}

// currentNode returns the newest node of a key, nil if there is none.
func (c *cache) currentNode(ws *snapshot.Workspace, s nodeKey) node {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.dirLocked(ws).nodes[s]
}

// entry returns a node as the answer to a lookup.
func (c *cache) entry(n node) Entry {
	root := rootAttr(n.core().dir.ws)
	c.mu.Lock()
	defer c.mu.Unlock()

	return entryLocked(n, root)
}

// get returns the node with an id. The error is errs.Stale if the node was removed.
func (c *cache) get(id live.NodeID) (node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if n, ok := c.mu.nodes[id]; ok {
		return n, nil
	}
	return nil, errs.Stale
}

// publish returns the node of a name with the content of w: the present node if it has an equal content, else
// a new one. publish releases the bytes that w has reserved.
func (c *cache) publish(ws *snapshot.Workspace, name string, mode uint32, w *contentWriter, src source) Entry {
	root := rootAttr(ws)
	c.mu.Lock()
	defer c.mu.Unlock()

	text := w.releaseLocked()
	d, s := c.dirLocked(ws), nodeKey{name, anybody}
	n, ok := d.nodes[s].(*renderedFile)
	if !ok || n.mode != mode || !n.content.equal(text) {
		n = &renderedFile{inode: inode{mode: mode}, content: text}
		c.addLocked(d, s, n)
	}

	n.source = src
	return entryLocked(n, root)
}

// publishText returns a file or a symlink with a short content.
func (c *cache) publishText(ws *snapshot.Workspace, f file, write func(io.Writer) error) (Entry, error) {
	w := c.newContentWriter(ws)
	if err := write(w); err != nil {
		w.discard()
		return Entry{}, err
	}
	return c.publish(ws, f.name, f.kind|f.mode, w, source{}), nil
}

// publishLink returns a symlink.
func (c *cache) publishLink(ws *snapshot.Workspace, name, target string) (Entry, error) {
	return c.publishText(ws, file{name: name, kind: typeLink, mode: 0o777}, func(w io.Writer) error {
		_, err := io.WriteString(w, target)
		return err
	})
}

// A directory has the files of one workspace's .snapshots, without its snapshots. cache.mu guards it.
type directory struct {
	cache      *cache
	ws         *snapshot.Workspace
	tenant     *tenant
	nodes      map[nodeKey]node      // the newest node of each key
	renderings map[string]*rendering // the renderings that run, by name of the file
	outcomes   map[nodeKey]*outcome  // the outcomes of commands whose answers were not read yet
	changedAt  int64                 // the time (ns) of the last command
}

// dirLocked returns the directory of a workspace, and creates it if there is none.
func (c *cache) dirLocked(ws *snapshot.Workspace) *directory {
	if d, ok := c.mu.dirs[ws.View()]; ok {
		return d
	}

	c.dropEndedForksLocked()
	d := &directory{cache: c, ws: ws, tenant: c.tenantLocked(ws), nodes: make(map[nodeKey]node), renderings: make(map[string]*rendering), outcomes: make(map[nodeKey]*outcome)}
	c.mu.dirs[ws.View()] = d

	return d
}

// dropEndedForksLocked removes the directories, nodes and tenants of forks that have ended.
func (c *cache) dropEndedForksLocked() {
	before := len(c.mu.dirs)
	maps.DeleteFunc(c.mu.dirs, func(view uint32, _ *directory) bool { return !isWorkspace(c.store, view) })
	if len(c.mu.dirs) == before {
		return
	}

	for _, n := range c.mu.nodes {
		if d := n.core().dir; c.mu.dirs[d.ws.View()] != d {
			c.removeLocked(n)
		}
	}

	maps.DeleteFunc(c.mu.tenants, func(view uint32, _ *tenant) bool { return !isWorkspace(c.store, view) })
}
