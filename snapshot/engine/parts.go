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

// Parts are the store that checkpoints are made of and read into. What a store has only once
// it is open may be set later.
type Parts struct {
	Dir        string
	FS         vfs.FS
	CAS        *cas.Store
	Objects    tree.Objects // those of CAS, and what is elsewhere
	Source     *tree.Source
	Log        *journal.Journal
	Forest     *live.Forest
	Catalogue  *catalogue.Catalogue // guarded by the lock of Forest
	Pins       Pins
	Incomplete atomic.Bool // objects are missing that no repair can bring back
	Loops      loops.Group
	Metrics    info.Recorder
	Logger     *slog.Logger
}

// Look runs fn with the lock of the forest held for reading.
func (p *Parts) Look(fn func(tx *live.Tx)) {
	_ = p.Forest.View(func(tx *live.Tx) error { // it has no error of its own
		fn(tx)
		return nil
	})
}

// Alter runs fn with the lock of the forest held, also while changes are held
// back.
func (p *Parts) Alter(fn func(tx *live.Tx)) {
	_ = p.Forest.Update(true, func(tx *live.Tx) error { // it has no error of its own
		fn(tx)
		return nil
	})
}

// heldName is the file in the store that says until when nothing is removed.
const heldName = "held"

// Hold writes down, after the clock jumped, until when nothing is removed.
func (p *Parts) Hold(until time.Time) {
	if err := vfs.WriteFile(p.FS, filepath.Join(p.Dir, heldName), []byte(until.Format(time.RFC3339))); err != nil {
		p.Logger.Warn("cannot write down that the clock jumped", "err", err)
	}
}

// Held returns what Hold wrote last; the zero time if it wrote nothing.
func (p *Parts) Held() (until time.Time) {
	if b, err := vfs.ReadFile(p.FS, filepath.Join(p.Dir, heldName)); err == nil {
		until, _ = time.Parse(time.RFC3339, string(b))
	}
	return until
}

// Union joins the sets of an interval.
func (p *Parts) Union(c actors.Changes) *actors.Set { return c.Union(p.Objects, p.Logger) }

// Pins are states that are read, and by how many readers.
type Pins struct {
	mu      sync.Mutex
	readers map[*tree.State]int
}

// Hold keeps what a state refers to, in packs and journal, until release is called:
// a reader reads it, and its snapshot may be deleted meanwhile.
func (h *Pins) Hold(st *tree.State) (release func()) {
	h.add(st, 1)
	return func() { h.add(st, -1) }
}

func (h *Pins) add(st *tree.State, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers == nil {
		h.readers = make(map[*tree.State]int)
	}
	if h.readers[st] += n; h.readers[st] == 0 {
		delete(h.readers, st)
	}
}

func (h *Pins) all() []*tree.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.readers))
}
