package fusefs

import (
	"log/slog"
	"sync"
	"time"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// bookmarkRest is the shortest time between two bookmarks of a fork.
const bookmarkRest = time.Second

// removals decides when a fork is bookmarked: before a removal, but only once for removals in a row. The
// bookmark is a hidden snapshot, see snapshot.Workspace.Bookmark.
type removals struct {
	store *snapshot.Store
	log   *slog.Logger

	mu    sync.Mutex
	forks map[uint32]*bookmark // the last bookmark, by view
}

type bookmark struct {
	at      time.Time
	changed bool // the fork was changed after the bookmark, other than by removals
}

// recordChange records a change of a view other than a removal.
func (r *removals) recordChange(view uint32) {
	if view == live.MainView {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()

	if b := r.forks[view]; b != nil {
		b.changed = true
	}
}

// maxMarked is the largest number of forks in removals. When it is reached, removals is emptied, and
// each fork is bookmarked again at its next removal.
const maxMarked = 4096

// due reports whether a view must be bookmarked before a removal. It records the bookmark.
func (r *removals) due(view uint32, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	b := r.forks[view]
	if b != nil && (!b.changed || now.Sub(b.at) < bookmarkRest) {
		return false
	}
	if r.forks == nil || len(r.forks) >= maxMarked {
		r.forks = make(map[uint32]*bookmark)
	}

	r.forks[view] = &bookmark{at: now}

	return true
}

// before is called before a name is removed. It bookmarks the fork if a bookmark is due.
func (r *removals) before(parent live.NodeID) {
	view := parent.View()
	if view == live.MainView || !r.due(view, time.Now()) {
		return
	}

	ws, ok := r.store.Workspace(view)
	if !ok || !ws.IsFork() {
		return
	}
	if err := ws.Bookmark(); err != nil {
		r.log.Warn("bookmarking a fork before a removal", "fork", ws.Name(), "err", err)
	}
}
