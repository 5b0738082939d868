package engine

import (
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
)

const (
	// maxStoredSets is the largest number of objects that contain the actor sets of one interval, the
	// time between two snapshots of a workspace. More objects are joined into one.
	maxStoredSets = 16
	// maxMemorySetBytes is the largest size in bytes of a workspace's actor sets that stay in memory after a
	// checkpoint. Larger sets are only on disk: then no snapshot is taken when another actor changes one of
	// their paths.
	maxMemorySetBytes = 1 << 20
)

// StoreActorSets writes the actor sets of a snapshot as one object. If the snapshot has more than
// maxStoredSets such objects, it joins them into one. The caller has entered Collector.Puts.
func (p *Parts) StoreActorSets(sn *catalogue.Snapshot) error {
	var taken actors.Changes
	p.Forest.WithReadLock(func(*live.Tx) { taken = sn.Changes() })
	if len(taken.Sets) == 0 && len(taken.Stored) <= maxStoredSets {
		return nil
	}
	if len(taken.Stored) <= maxStoredSets {
		taken.Stored = nil
	}

	h, err := actors.PutSet(p.CAS, p.Union(taken))
	if err != nil {
		return err
	}

	p.Forest.WithLock(func(*live.Tx) { sn.ReplaceSets(taken, h) }) // no effect if another caller has stored them

	return nil
}

// storeActors writes the actor sets of all snapshots and workspaces of a checkpoint. The caller
// has entered Collector.Puts.
func (c *Checkpoint) storeActors() error {
	for _, sn := range sortedByView(c.snapshots) {
		if err := c.checkpointer.StoreActorSets(sn); err != nil {
			return err
		}
	}

	for view, w := range c.workspaces {
		if err := c.joinStoredSets(view, w); err != nil {
			return err
		}

		set := actors.Union(w.actors...)
		h, err := actors.PutSet(c.checkpointer.CAS, set)
		if err != nil {
			return err
		}
		if h.IsZero() {
			continue
		}

		stored := actors.Changes{Names: set.Actors(), Stored: []cas.Hash{h}}
		all := actors.Changes{Names: w.record.Actors, Stored: w.record.ActorSets}
		all.Add(stored)
		w.record.Actors, w.record.ActorSets = all.Names, all.Stored
		c.checkpointer.Forest.WithLock(func(tx *live.Tx) {
			if set.MemoryBytes() <= maxMemorySetBytes {
				tx.JoinActors(view, w.actors, set)
			} else if tx.JoinActors(view, w.actors, nil) {
				c.checkpointer.Catalogue.Workspaces.At(view).AddStored(stored)
			}
		})
	}

	return nil
}

// joinStoredSets joins the objects with the actor sets of a workspace into one object, if the workspace has
// more than maxStoredSets.
func (c *Checkpoint) joinStoredSets(view uint32, w *frozenWorkspace) error {
	stored := w.record.ActorSets
	if len(stored) <= maxStoredSets {
		return nil
	}

	h, err := actors.PutSet(c.checkpointer.CAS, c.checkpointer.Union(actors.Changes{Stored: stored}))
	if err != nil {
		return err
	}

	w.record.ActorSets = slices.DeleteFunc([]cas.Hash{h}, cas.Hash.IsZero)
	c.checkpointer.Forest.WithLock(func(*live.Tx) {
		if w := c.checkpointer.Catalogue.Workspaces.At(view); w != nil {
			w.ReplaceStored(stored, h)
		}
	})

	return nil
}

// loadActors loads the newest stored actor set of a workspace into memory, unless it is larger than
// maxMemorySetBytes. Only the sets in memory show that another actor changed a path. The caller holds the lock
// of the forest.
func (l *Loader) loadActors(tx *live.Tx, w *catalogue.Workspace) {
	stored := w.StoredSets()
	n := len(stored) - 1
	if n < 0 {
		return
	}

	if set := l.Union(actors.Changes{Stored: stored[n:]}); set.MemoryBytes() <= maxMemorySetBytes {
		w.DropNewestStored()
		tx.AddActorSets(w.View, []*actors.Set{set})
	}
}
