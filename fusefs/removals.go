package fusefs

import (
	"log/slog"
	"sync"
	"time"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// bookmarkInterval is the shortest time between two bookmarks of a fork.
const bookmarkInterval = time.Second

// removals decides when a fork is bookmarked: before a removal, but only once for removals in a row. The
// bookmark is a hidden snapshot, see snapshot.Workspace.Bookmark.
type removals struct {
	store *snapshot.Store
	log   *slog.Logger

	mu        sync.Mutex
	bookmarks map[uint32]*bookmark // the last bookmark of each fork, by view
}

type bookmark struct {
	takenAt time.Time
	changed bool // the fork was changed after the bookmark, other than by removals
}

// recordChange records a change of a view other than a removal.
func (r *removals) recordChange(view uint32) {
	if view == live.MainView {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()

	if b := r.bookmarks[view]; b != nil {
		b.changed = true
	}
}

// maxBookmarks is the largest number of bookmarks in removals. When it is reached, all are removed, and
// each fork is bookmarked again at its next removal.
const maxBookmarks = 4096

// recordIfDue reports whether a view must be bookmarked before a removal. If so, it records that the caller bookmarks
// the view now.
func (r *removals) recordIfDue(view uint32, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	b := r.bookmarks[view]
	if b != nil && (!b.changed || now.Sub(b.takenAt) < bookmarkInterval) {
		return false
	}
	if r.bookmarks == nil || len(r.bookmarks) >= maxBookmarks {
		r.bookmarks = make(map[uint32]*bookmark)
	}

	r.bookmarks[view] = &bookmark{takenAt: now}

	return true
}

// beforeRemoval is called before a name is removed from the directory parent. It bookmarks the fork if a bookmark is
// due.
func (r *removals) beforeRemoval(parent live.NodeID) {
	view := parent.View()
	if view == live.MainView || !r.recordIfDue(view, time.Now()) {
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
