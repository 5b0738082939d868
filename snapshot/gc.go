package snapshot

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// GC gives back the disk space of what nothing refers to any more. Writers,
// captures and seals go on meanwhile, and while it waits for an import, so do
// checkpoints and verifications.
func (s *Store) GC(ctx context.Context, progress func(done, total int64)) (cas.GCResult, error) {
	return s.gc.Run(ctx, progress)
}

// roots are all states that gc keeps, with what is below them. This is the only list:
//
//  1. the present state of each workspace
//  2. the states after the last restores of a workspace (catalogue.Workspace.Restored)
//  3. the state of each snapshot in the catalogue, the base of each workspace among them
//  4. the states that records of the journal since the last checkpoint name
//     (Catalogue.Roots)
//  5. inodes without a name that the kernel may hold
//  6. what the last checkpoint names, from which recovery would start
//  7. states that are being read (core.pins, see Store.Hold)
//  8. the states of directories that workspaces and snapshots were refreshed from
//  9. the sets of actors of snapshots and workspaces, as they are and as the last
//     checkpoint names them
//
// Objects that nothing refers to yet are no roots: gc waits until they are referred to
// (engine.Collector.Puts). The states of snapshots come in the order in which they
// were made, and so as they lie in the packs.
func (s entries) roots() (out []*tree.State, sets []cas.Hash, err error) {
	var snaps []*snap
	var roots []catalogue.Root
	dirs := make(map[string]bool)
	if err := s.forest.Update(true, func(tx *live.Tx) error {
		for _, w := range s.cat.Workspaces {
			roots = append(roots, catalogue.Root{State: w.Freeze(tx)})
			dirs[w.Dir] = true
			w.Restored = slices.DeleteFunc(w.Restored, func(r catalogue.Restored) bool { return s.cat.Snapshots[r.View] == nil })
			for _, r := range w.Restored {
				roots = append(roots, catalogue.Root{State: r.State})
			}
		}
		snaps = slices.Collect(maps.Values(s.cat.Snapshots))
		roots = append(roots, s.cat.Roots...)
		sets = s.cat.StoredSets()
		orphans, err := tx.Orphans()
		out = slices.AppendSeq(out, maps.Values(orphans))
		return err
	}); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(snaps, func(a, b *snap) int { return cmp.Compare(a.View, b.View) })
	s.look(func(*live.Tx) {
		for _, sn := range snaps {
			roots = append(roots, sn.Root())
			dirs[sn.Dir] = true
		}
	})
	type record struct {
		ID        string            `json:"id"`
		State     string            `json:"state"`
		Partly    *catalogue.Partly `json:"partly"`
		Orphans   *catalogue.Partly `json:"orphans"`
		ActorSets []cas.Hash        `json:"actor_sets"`
		Dir       string            `json:"dir"`
	}
	for _, prefix := range []string{catalogue.Snapshots, catalogue.Workspaces} {
		if err := catalogue.Scan(s.cas, prefix, func(r record) error {
			sets = append(sets, r.ActorSets...)
			dirs[r.Dir] = true
			for _, p := range []*catalogue.Partly{r.Partly, r.Orphans} {
				if p == nil {
					continue
				}
				st, err := p.Load(s.src, 1)
				if err != nil {
					return err
				}
				sets = append(sets, p.Files...)
				roots = append(roots, catalogue.Root{ID: p.State}, catalogue.Root{State: st})
			}
			if r.Partly != nil {
				return nil
			}
			h, err := cas.ParseHash(r.ID + r.State)
			roots = append(roots, catalogue.Root{ID: h})
			return err
		}); err != nil {
			return nil, nil, err
		}
	}
	delete(dirs, "")
	for dir := range dirs {
		h, err := cas.ParseHash(dir)
		if err != nil {
			return nil, nil, err
		}
		roots = append(roots, catalogue.Root{ID: h})
	}
	out = append(out, s.pins.all()...)
	known := make(map[cas.Hash]bool, len(roots))
	for _, r := range roots {
		if r.State == nil && known[r.ID] {
			continue
		}
		known[r.ID] = true
		st, err := r.Load(s.src)
		if errors.Is(err, cas.ErrNotFound) && s.salvage.incomplete.Load() {
			continue // nothing of it can be found any more
		}
		if err != nil {
			return nil, nil, engine.NeedsRepair(err)
		}
		out = append(out, st)
	}
	return out, sets, nil
}

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
