package engine

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Roots are all states that gc keeps, with what is below them. This is the only list:
//
//  1. the present state of each workspace
//  2. the states after the last restores of a workspace (catalogue.Workspace.Restored)
//  3. the state of each snapshot in the catalogue, the base of each workspace among them
//  4. the states that records of the journal since the last checkpoint name
//     (Catalogue.Roots)
//  5. inodes without a name that the kernel may hold
//  6. what the last checkpoint names, from which recovery would start
//  7. states that are being read (Parts.Pins)
//  8. the states of directories that workspaces and snapshots were refreshed from
//  9. the sets of actors of snapshots and workspaces, as they are and as the last
//     checkpoint names them
//
// Objects that nothing refers to yet are no roots: gc waits until they are referred to
// (Collector.Puts). The states of snapshots come in the order in which they
// were made, and so as they lie in the packs.
func (p *Parts) Roots() (out []*tree.State, sets []cas.Hash, err error) {
	var snaps []*catalogue.Snapshot
	var roots []catalogue.Root
	dirs := make(map[string]bool)
	if err := p.Forest.Update(true, func(tx *live.Tx) error {
		for _, w := range p.Catalogue.Workspaces {
			roots = append(roots, catalogue.Root{State: w.Freeze(tx)})
			dirs[w.Dir] = true
			w.Restored = slices.DeleteFunc(w.Restored, func(r catalogue.Restored) bool { return p.Catalogue.Snapshots[r.View] == nil })
			for _, r := range w.Restored {
				roots = append(roots, catalogue.Root{State: r.State})
			}
		}
		snaps = slices.Collect(maps.Values(p.Catalogue.Snapshots))
		roots = append(roots, p.Catalogue.Roots...)
		sets = p.Catalogue.StoredSets()
		orphans, err := tx.Orphans(slices.Collect(maps.Keys(p.Catalogue.Workspaces)))
		out = slices.AppendSeq(out, maps.Values(orphans))
		return err
	}); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(snaps, func(a, b *catalogue.Snapshot) int { return cmp.Compare(a.View, b.View) })
	p.Look(func(*live.Tx) {
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
		if err := catalogue.Scan(p.CAS, prefix, func(r record) error {
			sets = append(sets, r.ActorSets...)
			dirs[r.Dir] = true
			for _, part := range []*catalogue.Partly{r.Partly, r.Orphans} {
				if part == nil {
					continue
				}
				st, err := part.Load(p.Source, 1)
				if err != nil {
					return err
				}
				sets = append(sets, part.Files...)
				roots = append(roots, catalogue.Root{ID: part.State}, catalogue.Root{State: st})
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
	out = append(out, p.Pins.all()...)
	known := make(map[cas.Hash]bool, len(roots))
	for _, r := range roots {
		if r.State == nil && known[r.ID] {
			continue
		}
		known[r.ID] = true
		st, err := r.Load(p.Source)
		if errors.Is(err, cas.ErrNotFound) && p.Incomplete.Load() {
			continue // nothing of it can be found any more
		}
		if err != nil {
			return nil, nil, NeedsRepair(err)
		}
		out = append(out, st)
	}
	return out, sets, nil
}
