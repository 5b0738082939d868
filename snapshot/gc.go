package snapshot

import (
	"cmp"
	"context"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/collection"
	"github.com/amberfs/amberfs/snapshot/history"
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
//  2. the states after the last restores of a workspace (Workspace.restored)
//  3. the state of each snapshot in the catalogue, the base of each workspace among them
//  4. the states that records of the journal since the last checkpoint name
//     (catalogue.journalRoots)
//  5. unlinked files that the kernel still holds
//  6. what the last checkpoint names, from which recovery would start
//  7. states that are being read (core.pins, see Store.Hold)
//  8. the sets of actors of snapshots and workspaces, as they are and as the last
//     checkpoint names them
//
// Objects that nothing refers to yet are no roots: gc waits until they are referred to
// (collection.Collector.Puts). The states of snapshots come in the order in which they
// were made, and so as they lie in the packs.
func (c *catalogue) roots() (out []*tree.State, sets []cas.Hash, err error) {
	var snaps []*snap
	var ids []cas.Hash // of states that are not loaded
	c.alter(func(tx *live.Tx) {
		for _, w := range c.workspaces {
			out = append(out, w.freeze(tx))
			w.restored = slices.DeleteFunc(w.restored, func(r restored) bool { return c.snaps[r.view] == nil })
			for _, r := range w.restored {
				out = append(out, r.state)
			}
		}
		for _, sn := range c.snaps {
			if !sn.Sealed {
				out = append(out, sn.State.Load())
			} else {
				snaps = append(snaps, sn)
			}
		}
		for _, r := range c.journalRoots {
			if r.state != nil {
				out = append(out, r.state)
			} else {
				ids = append(ids, r.id)
			}
		}
		out = append(out, tx.Orphans()...)
		sets = c.storedSets()
	})
	slices.SortFunc(snaps, func(a, b *snap) int { return cmp.Compare(a.View, b.View) })
	for _, sn := range snaps {
		ids = append(ids, sn.Hash)
	}
	type record struct {
		ID        string     `json:"id"`
		State     string     `json:"state"`
		ActorSets []cas.Hash `json:"actor_sets"`
	}
	for _, prefix := range []string{history.Snapshots, history.Workspaces} {
		if err := history.Scan(c.cas, prefix, func(r record) error {
			h, err := cas.ParseHash(r.ID + r.State)
			ids, sets = append(ids, h), append(sets, r.ActorSets...)
			return err
		}); err != nil {
			return nil, nil, err
		}
	}
	out = append(out, c.pins.all()...)
	known := make(map[cas.Hash]bool, len(ids))
	for _, h := range ids {
		if known[h] {
			continue
		}
		known[h] = true
		st, err := tree.Load(c.src, h)
		if isNotFound(err) && c.salvage.incomplete.Load() {
			continue // nothing of it can be found any more
		}
		if err != nil {
			return nil, nil, collection.NeedsRepair(err)
		}
		out = append(out, st)
	}
	return out, sets, nil
}
