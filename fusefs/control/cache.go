package control

import (
	"maps"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
)

// The nodes of generated files, answers, scratch files and call files are one cache.
// Each tenant has a part of it. A node that does not fit any more is removed: the kernel
// gets ESTALE for it, and the next lookup of its name renders the file again. Answers
// and scratch files are lost then.
const (
	// forkBytes is the part of a fork of main, with the forks in it; mainBytes is that of main.
	forkBytes = 8 << 20
	mainBytes = 64 << 20
	// maxEntries is how many nodes a tenant has.
	maxEntries = 1024
	// maxBytes is what all tenants have together. When they have more, the largest one loses nodes.
	maxBytes = 128 << 20
)

// limits are the constants above; tests have smaller ones.
type limits struct {
	fork, main, all int64
	entries         int
}

// chargeLocked counts bytes of a tenant.
func (t *Tree) chargeLocked(k *tenant, bytes int64) {
	k.bytes += bytes
	t.mu.bytes += bytes
}

// reserve takes bytes of a tenant's part for a content that has some already.
func (t *Tree) reserve(k *tenant, has, more int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case has+more > k.limit-maxCommand: // the command that asked for it has room as well
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

// resizeLocked counts a node that is new, or whose size has changed, and makes room for
// it. It does nothing for a node that was removed.
func (t *Tree) resizeLocked(n *node) {
	if n.place == nil {
		return
	}
	k, size := n.dir.tenant, n.sizeLocked()
	t.chargeLocked(k, size-n.size)
	n.size = size
	k.nodes.MoveToFront(n.place)
	t.trimLocked(k)
}

func (n *node) usedLocked() {
	if n.place != nil {
		n.dir.tenant.nodes.MoveToFront(n.place)
	}
}

// trimLocked removes the nodes that a tenant has used least recently while it has too
// much, and then those of the largest tenants while all have.
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

// addLocked makes a node the one that a name shows from now on.
func (t *Tree) addLocked(d *directory, s slot, n *node) *node {
	t.mu.last++
	n.id, n.dir, n.slot, n.mtime = fileID(t.mu.last, n.private()), d, s, now()
	if old := d.current[s]; old != nil && old.kernelRefs == 0 {
		t.removeLocked(old)
	}
	t.mu.nodes[n.id] = n
	d.current[s] = n
	n.place = d.tenant.nodes.PushFront(n)
	t.resizeLocked(n)
	return n
}

// removeLocked removes a node. What the kernel still asks of it is answered with ESTALE.
func (t *Tree) removeLocked(n *node) {
	if n.place == nil {
		return
	}
	n.dir.tenant.nodes.Remove(n.place)
	n.place = nil
	t.chargeLocked(n.dir.tenant, -n.size)
	delete(t.mu.nodes, n.id)
	n.unnameLocked()
}

func (n *node) unnameLocked() {
	if n.dir.current[n.slot] == n {
		delete(n.dir.current, n.slot)
	}
}

// A directory is what .snapshots of one workspace has besides snapshots. Tree.mu guards it.
type directory struct {
	ws        *snapshot.Workspace
	tenant    *tenant
	current   map[slot]*node        // the newest node of each name
	rendering map[string]*rendering // by name
	changed   int64                 // when (ns) the last command ran
}

func (t *Tree) dirLocked(ws *snapshot.Workspace) *directory {
	if d, ok := t.mu.dirs[ws.View()]; ok {
		return d
	}
	t.dropEndedLocked()
	d := &directory{ws: ws, tenant: t.tenantLocked(ws), current: make(map[slot]*node), rendering: make(map[string]*rendering)}
	t.mu.dirs[ws.View()] = d
	return d
}

// dropEndedLocked forgets what belongs to forks that have ended.
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
