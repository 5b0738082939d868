package fusefs

import (
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

// changed records a change of a view other than a removal.
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

// maxMarked is how many forks are remembered. One that is forgotten is bookmarked once more.
const maxMarked = 4096

// due reports whether a view is to be bookmarked before a removal.
func (r *removals) due(view uint32, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	k := r.forks[view]
	if k != nil && (!k.changed || now.Sub(k.marked) < bookmarkRest) {
		return false
	}
	if r.forks == nil || len(r.forks) >= maxMarked {
		r.forks = make(map[uint32]*removal)
	}

	r.forks[view] = &removal{marked: now}

	return true
}

// beforeRemoval is called before a name is removed.
func (fs *filesystem) beforeRemoval(parent live.NodeID) {
	view := parent.View()
	if view == live.MainView || !fs.removals.due(view, time.Now()) {
		return
	}

	ws, ok := fs.opts.Store.Workspace(view)
	if !ok || !ws.IsFork() {
		return
	}
	if err := ws.Bookmark(); err != nil {
		fs.opts.Logger.Warn("bookmarking a fork before a removal", "fork", ws.Name(), "err", err)
	}
}
