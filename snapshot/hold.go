package snapshot

import (
	"maps"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// pins are states that are read, and by how many readers.
type pins struct {
	mu      sync.Mutex
	readers map[*tree.State]int
}

// Hold keeps what a state refers to, in packs and journal, until release is called:
// a reader reads it, and its snapshot may be deleted meanwhile.
func (s *core) Hold(st *tree.State) (release func()) {
	h := &s.pins
	h.add(st, 1)
	return func() { h.add(st, -1) }
}

func (h *pins) add(st *tree.State, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers == nil {
		h.readers = make(map[*tree.State]int)
	}
	if h.readers[st] += n; h.readers[st] == 0 {
		delete(h.readers, st)
	}
}

func (h *pins) all() []*tree.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.readers))
}
