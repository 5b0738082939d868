package control

import (
	"maps"
	"slices"

	"github.com/amberfs/amberfs/snapshot"
)

// A directory is what .snapshots of one workspace has besides snapshots. Tree.mu
// guards it.
type directory struct {
	ws        *snapshot.Workspace
	tenant    *tenant
	current   map[slot]*node        // the newest node of each name
	rendering map[string]*rendering // by name
	changed   int64                 // when (ns) the last command ran
}

// dirLocked returns the directory of a workspace.
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
	for _, n := range slices.Collect(maps.Values(t.mu.nodes)) {
		if t.mu.dirs[n.dir.ws.View()] != n.dir {
			t.removeLocked(n)
		}
	}
	maps.DeleteFunc(t.mu.tenants, func(view uint32, _ *tenant) bool { return !t.isWorkspace(view) })
}
