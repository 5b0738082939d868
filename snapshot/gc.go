package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/history"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// gcRounds bounds how often a gc starts again on a full disk.
const gcRounds = 3

// GC gives back the disk space of what nothing refers to any more. Writers,
// captures and seals go on meanwhile, and while it waits for an import, so do
// checkpoints and verifications.
func (s *Store) GC(ctx context.Context, progress func(done, total int64)) (cas.GCResult, error) {
	return s.gc.run(ctx, progress)
}

func (g *collector) run(ctx context.Context, progress func(done, total int64)) (cas.GCResult, error) {
	var sum cas.GCResult
	for range gcRounds {
		again, err := g.collect(ctx, &sum, progress)
		if err != nil {
			return sum, needsRepair(err)
		}
		if !again {
			break
		}
		// What it gave back may be enough for the checkpoint. Then the journal
		// goes, and what was removed but is still in the last checkpoint.
	}
	g.ckpt.ShrinkJournal()
	return sum, nil
}

// collect is one round of a gc. It reports whether there was no room for the
// checkpoint.
func (g *collector) collect(ctx context.Context, sum *cas.GCResult, progress func(done, total int64)) (again bool, err error) {
	// Who put objects before they were recorded is waited for: what they made is
	// referred to when they are done. An import may take as long as it likes.
	gc, err := g.cas.Record(ctx, g.puts.Wait)
	if err != nil {
		return false, err
	}
	defer gc.Close()
	g.ckpt.mu.Lock()
	defer g.ckpt.mu.Unlock()
	full := g.ckpt.checkpoint(ctx)
	if full != nil {
		// Space can be given back on a full disk too: what the last checkpoint
		// refers to is marked as well.
		g.logger.Warn("no checkpoint before gc", "err", full, guard.Stack(full))
	}
	removed := g.removed.Swap(0)
	res, err := gc.Collect(ctx, g.salvage.incomplete.Load(), func(keep func(cas.Hash) bool) error { return g.mark(ctx, keep) }, progress)
	sum.Removed += res.Removed
	sum.FreedBytes += res.FreedBytes
	if err != nil {
		g.removed.CompareAndSwap(0, removed)
		return false, err
	}
	g.room.Stored.Store(g.cas.Stats().Stored)
	g.base.Store(g.room.Stored.Load())
	g.metrics.Note(func(m *info.Metrics) { m.GarbageCollects++ })
	return full != nil, nil
}

// mark marks everything that the store still needs.
func (g *collector) mark(ctx context.Context, keep func(cas.Hash) bool) error {
	states, sets, err := g.roots()
	if err != nil {
		return err
	}
	keep = g.objects.Here(keep)
	for _, h := range sets {
		if here, err := g.cas.Has(h); here || err != nil { // nothing is lost with one that is damaged
			keep(h)
		}
	}
	for _, st := range states {
		if err := st.Mark(ctx, g.src, g.salvage.incomplete.Load(), keep); err != nil {
			return needsRepair(err)
		}
	}
	return nil
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
// (collector.puts). The states of snapshots come in the order in which they were made, and
// so as they lie in the packs.
func (g *collector) roots() (out []*tree.State, sets []cas.Hash, err error) {
	var snaps []*snap
	var ids []cas.Hash // of states that are not loaded
	err = g.forest.Update(true, func(tx *live.Tx) error {
		for id, w := range g.cat.workspaces {
			st, err := tx.Capture(id)
			if err != nil {
				return err
			}
			out = append(out, st)
			w.restored = slices.DeleteFunc(w.restored, func(r restored) bool { return g.cat.snaps[r.view] == nil })
			for _, r := range w.restored {
				out = append(out, r.state)
			}
		}
		for _, sn := range g.cat.snaps {
			if !sn.Sealed {
				out = append(out, sn.State.Load())
			} else {
				snaps = append(snaps, sn)
			}
		}
		for _, r := range g.cat.journalRoots {
			if r.state != nil {
				out = append(out, r.state)
			} else {
				ids = append(ids, r.id)
			}
		}
		out = append(out, tx.Orphans()...)
		sets = g.cat.storedSets()
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
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
		if err := history.Scan(g.cas, prefix, func(r record) error {
			h, err := cas.ParseHash(r.ID + r.State)
			ids, sets = append(ids, h), append(sets, r.ActorSets...)
			return err
		}); err != nil {
			return nil, nil, err
		}
	}
	out = append(out, g.pins.all()...)
	known := make(map[cas.Hash]bool, len(ids))
	for _, h := range ids {
		if known[h] {
			continue
		}
		known[h] = true
		st, err := tree.Load(g.src, h)
		if isNotFound(err) && g.salvage.incomplete.Load() {
			continue // nothing of it can be found any more
		}
		if err != nil {
			return nil, nil, needsRepair(err)
		}
		out = append(out, st)
	}
	return out, sets, nil
}

// needsRepair explains why gc does nothing in a damaged store: what hangs below
// a damaged object would be taken for garbage, and the object may be repaired yet.
func needsRepair(err error) error {
	if errors.Is(err, errs.Damaged) || isNotFound(err) {
		return fmt.Errorf("the store is damaged; run `amberfs verify --repair` before gc: %w", err)
	}
	return err
}
