package control

import (
	"maps"
	"slices"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A directory is what .snapshots of one workspace has besides snapshots. Tree.mu
// guards it.
type directory struct {
	ws      *snapshot.Workspace
	tenant  *tenant
	current map[string]*node       // the newest node of each name
	results map[string]*content    // what the last command of a file said
	owners  map[string]live.Caller // of each call.ANYTHING
	calls   []string               // call.ANYTHING, oldest first
	scratch []*node                // oldest first
	changed int64                  // when (ns) the last command ran
}

// dirLocked returns the directory of a workspace.
func (t *Tree) dirLocked(ws *snapshot.Workspace) *directory {
	if d, ok := t.mu.dirs[ws.View()]; ok {
		return d
	}
	t.dropEndedLocked()
	d := &directory{
		ws: ws, tenant: t.tenantLocked(ws), current: make(map[string]*node),
		results: make(map[string]*content), owners: make(map[string]live.Caller),
	}
	t.mu.dirs[ws.View()] = d
	return d
}

// dropEndedLocked forgets what belongs to forks that have ended.
func (t *Tree) dropEndedLocked() {
	maps.DeleteFunc(t.mu.dirs, func(view uint32, d *directory) bool {
		if t.isWorkspace(view) {
			return false
		}
		for _, c := range d.results {
			c.release()
		}
		return true
	})
	maps.DeleteFunc(t.mu.tenants, func(view uint32, _ *tenant) bool { return !t.isWorkspace(view) })
}

// setResult makes c what a file says; nil: nothing. The reference goes to it.
func (d *directory) setResult(name string, c *content) {
	d.results[name].release()
	delete(d.results, name)
	if c != nil {
		d.results[name] = c
	}
}

// entryOf is what the kernel is to drop for it to forget a node.
func (d *directory) entryOf(name string) live.Entry {
	return live.Entry{Parent: snapshotsID(d.ws.View()), Name: name}
}

// without removes a value from a list, in place.
func without[T comparable](list []T, v T) []T {
	return slices.DeleteFunc(list, func(x T) bool { return x == v })
}
