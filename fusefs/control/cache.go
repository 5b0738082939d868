package control

import (
	"maps"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
)

// The nodes of generated files, answers, scratch files and call files are in one cache. Each tenant has
// a part of it. If a part is full, the node that was used least recently is removed: requests for it
// fail with ESTALE, and the next lookup of its name renders the file again. Answers and scratch files
// cannot be rendered again, and are lost.
const (
	// forkBytes is the size of the part of a fork of main with the forks in it.
	forkBytes = 8 << 20
	// mainBytes is the size of the part of main.
	mainBytes = 64 << 20
	// maxEntries is the most nodes of a tenant.
	maxEntries = 1024
	// maxBytes is the most bytes of all tenants together. Beyond, the largest tenants lose nodes.
	maxBytes = 128 << 20
)

// limits has the constants above; tests use smaller ones.
type limits struct {
	fork, main, all int64
	entries         int
}

// chargeLocked adds to the bytes that a tenant has in the cache.
func (t *Tree) chargeLocked(k *tenant, bytes int64) {
	k.bytes += bytes
	t.mu.bytes += bytes
}

// reserve reserves more bytes in a tenant's part for a content that has reserved has bytes before. It
// removes other nodes to make room. It fails with errs.TooBig if the content is larger than the part,
// and with errs.Quota if contents that are being written take too much.
func (t *Tree) reserve(k *tenant, has, more int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()

	switch {
	case has+more > k.limit-maxCommand: // room is left for the command that asked for the content
		return errs.New(errs.TooBig, "the text is larger than %d MiB, the limit for control files of this workspace; name paths, or use the command line",
			(k.limit-maxCommand)>>20)
	case k.reserved+more > k.limit:
		return errs.New(errs.Quota, "limit reached: texts being generated for this workspace take %d MiB already; try again", k.limit>>20)
	}

	k.reserved += more
	t.chargeLocked(k, more)
	t.trimLocked(k)

	if t.mu.bytes > t.limits.all {
		k.reserved -= more
		t.chargeLocked(k, -more)
		return errs.New(errs.Quota, "limit reached: texts being generated for all workspaces take %d MiB already; try again", t.limits.all>>20)
	}

	return nil
}

// resizeLocked charges a node that is new, or whose size has changed, and makes room for it. It ignores
// a node that was removed.
func (t *Tree) resizeLocked(n *node) {
	if n.element == nil {
		return
	}
	k, size := n.dir.tenant, n.sizeLocked()
	t.chargeLocked(k, size-n.size)
	n.size = size
	k.nodes.MoveToFront(n.element)
	t.trimLocked(k)
}

// touchLocked records that a node was used now.
func (n *node) touchLocked() {
	if n.element != nil {
		n.dir.tenant.nodes.MoveToFront(n.element)
	}
}

// trimLocked removes the least recently used nodes of a tenant while it is over its limits. Then it
// removes nodes of the largest tenants while all together are over theirs.
func (t *Tree) trimLocked(k *tenant) {
	for k.nodes.Len() > 0 && (k.bytes > k.limit || k.nodes.Len() > t.limits.entries) {
		t.removeLocked(k.oldest())
	}

	for t.mu.bytes > t.limits.all {
		var largest *tenant
		for _, k := range t.mu.tenants {
			if k.nodes.Len() > 0 && (largest == nil || k.bytes > largest.bytes) {
				largest = k
			}
		}
		if largest == nil {
			return
		}
		t.removeLocked(largest.oldest())
	}
}

func (k *tenant) oldest() *node { return k.nodes.Back().Value.(*node) }

// addLocked gives a slot a new node. The kernel may still have the slot's old node.
func (t *Tree) addLocked(d *directory, s slot, n *node) *node {
	t.mu.last++
	n.id, n.dir, n.slot, n.mtime = fileID(t.mu.last, n.private()), d, s, now()
	if old := d.current[s]; old != nil && old.kernelRefs == 0 {
		t.removeLocked(old)
	}

	t.mu.nodes[n.id] = n
	d.current[s] = n
	n.element = d.tenant.nodes.PushFront(n)
	t.resizeLocked(n)

	return n
}

// removeLocked removes a node. Later requests of the kernel for it fail with ESTALE.
func (t *Tree) removeLocked(n *node) {
	if n.element == nil {
		return
	}
	n.dir.tenant.nodes.Remove(n.element)
	n.element = nil
	t.chargeLocked(n.dir.tenant, -n.size)
	delete(t.mu.nodes, n.id)
	n.unnameLocked()
}

// unnameLocked removes the node's name, if it still has it. The node stays.
func (n *node) unnameLocked() {
	if n.dir.current[n.slot] == n {
		delete(n.dir.current, n.slot)
	}
}

// A directory has the files of one workspace's .snapshots, without its snapshots. Tree.mu guards it.
type directory struct {
	ws         *snapshot.Workspace
	tenant     *tenant
	current    map[slot]*node        // the newest node of each slot
	renderings map[string]*rendering // that run, by name of the file
	changed    int64                 // the time (ns) of the last command
}

// dirLocked returns the directory of a workspace, and creates it if there is none.
func (t *Tree) dirLocked(ws *snapshot.Workspace) *directory {
	if d, ok := t.mu.dirs[ws.View()]; ok {
		return d
	}

	t.dropEndedLocked()
	d := &directory{ws: ws, tenant: t.tenantLocked(ws), current: make(map[slot]*node), renderings: make(map[string]*rendering)}
	t.mu.dirs[ws.View()] = d

	return d
}

// dropEndedLocked removes the directories, nodes and tenants of forks that have ended.
func (t *Tree) dropEndedLocked() {
	before := len(t.mu.dirs)
	maps.DeleteFunc(t.mu.dirs, func(view uint32, _ *directory) bool { return !t.isWorkspace(view) })
	if len(t.mu.dirs) == before {
		return
	}

	for _, n := range t.mu.nodes {
		if t.mu.dirs[n.dir.ws.View()] != n.dir {
			t.removeLocked(n)
		}
	}

	maps.DeleteFunc(t.mu.tenants, func(view uint32, _ *tenant) bool { return !t.isWorkspace(view) })
}
