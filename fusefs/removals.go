package fusefs

import (
	"maps"
	"sync"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
)

// bookmarkRest is the shortest time between two bookmarks of a fork.
const bookmarkRest = time.Second

// removals bookmarks a fork before something is removed in it, once for all
// removals in a row.
type removals struct {
	mu    sync.Mutex
	forks map[uint32]*removal // by view
}

type removal struct {
	marked  time.Time
	changed bool // otherwise than by removals, since
}

// changed notes a change of a view that is no removal.
func (r *removals) changed(view uint32) {
	if view == live.MainView {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.forks[view]; k != nil {
		k.changed = true
	}
}

// due reports whether a view is to be bookmarked before a removal. exists reports whether
// a view is still there; those of others are dropped when there is a new one.
func (r *removals) due(view uint32, now time.Time, exists func(view uint32) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.forks[view]
	if k != nil && (!k.changed || now.Sub(k.marked) < bookmarkRest) {
		return false
	}
	if r.forks == nil {
		r.forks = make(map[uint32]*removal)
	}
	if k == nil {
		maps.DeleteFunc(r.forks, func(view uint32, _ *removal) bool { return !exists(view) })
	}
	r.forks[view] = &removal{marked: now}
	return true
}

// beforeRemoval is called before a name is removed.
func (fs *filesystem) beforeRemoval(parent live.NodeID) {
	view := parent.View()
	if view == live.MainView {
		return
	}
	exists := func(view uint32) bool {
		_, ok := fs.store.Workspace(view)
		return ok
	}
	if !fs.removals.due(view, time.Now(), exists) {
		return
	}
	ws, ok := fs.store.Workspace(view)
	if !ok || !ws.IsFork() {
		return
	}
	if err := ws.Bookmark(); err != nil {
		fs.log.Warn("bookmarking a fork before a removal", "fork", ws.Name(), "err", err)
	}
}
