package engine

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Parts are the components of a store. Components that exist only when the store is open may be
// set later.
type Parts struct {
	Dir        string
	FS         vfs.FS
	CAS        *cas.Store
	Objects    tree.Objects // the objects in CAS and on remotes
	Source     *tree.Source
	Log        *journal.Journal
	Forest     *live.Forest
	Catalogue  *catalogue.Catalogue // guarded by the lock of Forest
	Pins       Pins
	Incomplete atomic.Bool // objects are missing, and no repair can restore them
	Loops      loops.Group
	Metrics    info.Recorder
	Logger     *slog.Logger
}

// pauseFile is the file in the store with the time until which policies remove no snapshots.
const pauseFile = "held"

// PauseRemovals writes the time until which policies remove no snapshots. It is called after the
// clock has jumped.
func (p *Parts) PauseRemovals(until time.Time) {
	if err := vfs.WriteFile(p.FS, filepath.Join(p.Dir, pauseFile), []byte(until.Format(time.RFC3339))); err != nil {
		p.Logger.Warn("cannot write down that the clock jumped", "err", err)
	}
}

// RemovalsPausedUntil returns the time that PauseRemovals wrote last, or the zero time if
// PauseRemovals was never called.
func (p *Parts) RemovalsPausedUntil() (until time.Time) {
	b, err := vfs.ReadFile(p.FS, filepath.Join(p.Dir, pauseFile))
	if err != nil {
		return time.Time{}
	}
	until, _ = time.Parse(time.RFC3339, string(b))
	return until
}

// Union returns the union of the actor sets of an interval, in memory and on disk.
func (p *Parts) Union(c actors.Changes) *actors.Set { return c.Union(p.Objects, p.Logger) }

// Pins are the states that are being read.
type Pins struct {
	mu      sync.Mutex
	readers map[*tree.State]int // number of readers
}

// Hold protects the objects and journal bytes of a state from removal until release is called,
// even if its snapshot is deleted in that time.
func (h *Pins) Hold(st *tree.State) (release func()) {
	h.addReaders(st, 1)
	return func() { h.addReaders(st, -1) }
}

func (h *Pins) addReaders(st *tree.State, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.readers == nil {
		h.readers = make(map[*tree.State]int)
	}
	if h.readers[st] += n; h.readers[st] == 0 {
		delete(h.readers, st)
	}
}

func (h *Pins) states() []*tree.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.readers))
}
