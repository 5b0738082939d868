package engine

import (
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
)

const (
	// maxStored is how many objects the changes of an interval have after a checkpoint.
	maxStored = 16
	// maxKept is how many bytes the sets of a workspace take in memory after a checkpoint.
	// Of what is only on disk an actor changes more without a snapshot before.
	maxKept = 1 << 20
)

// StoreChanges writes the sets of a snapshot as one object, and joins objects if there are
// many. The caller is in Collector.Puts.
func (p *Parts) StoreChanges(sn *catalogue.Snapshot) error {
	var was actors.Changes
	p.Look(func(*live.Tx) { was = sn.Changes })
	if len(was.Sets) == 0 && len(was.Stored) <= maxStored {
		return nil
	}
	if len(was.Stored) <= maxStored {
		was.Stored = nil
	}
	h, err := actors.PutSet(p.CAS, p.Union(was))
	if err != nil {
		return err
	}
	p.Alter(func(*live.Tx) {
		c := &sn.Changes
		n, m := len(was.Stored), len(was.Sets)
		if len(c.Stored) < n || len(c.Sets) < m || !slices.Equal(c.Stored[:n], was.Stored) || !slices.Equal(c.Sets[:m], was.Sets) {
			return // stored meanwhile
		}
		stored := slices.Clone(c.Stored[n:])
		if !h.IsZero() && !slices.Contains(stored, h) {
			stored = append(stored, h)
		}
		c.Stored, c.Sets = stored, slices.Clone(c.Sets[m:])
	})
	return nil
}

// storeActors writes the sets of all snapshots and workspaces of a checkpoint. The caller
// is in Collector.Puts.
func (c *Checkpoint) storeActors() error {
	for _, sn := range sortedSnaps(c.snaps) {
		if err := c.StoreChanges(sn); err != nil {
			return err
		}
	}
	for view, w := range c.workspaces {
		if err := c.joinStored(view, w); err != nil {
			return err
		}
		set := actors.Union(w.actors...)
		h, err := actors.PutSet(c.CAS, set)
		if err != nil {
			return err
		}
		if h.IsZero() {
			continue
		}
		stored := actors.Changes{Names: set.Actors(), Stored: []cas.Hash{h}}
		all := actors.Changes{Names: w.record.Actors, Stored: w.record.ActorSets}
		all.Take(stored)
		w.record.Actors, w.record.ActorSets = all.Names, all.Stored
		c.Alter(func(tx *live.Tx) {
			if set.Size() <= maxKept {
				tx.JoinActors(view, w.actors, set)
			} else if tx.JoinActors(view, w.actors, nil) {
				c.Catalogue.Workspaces[view].Early.Take(stored)
			}
		})
	}
	return nil
}

// joinStored makes one object of those that have the changes of a workspace before the
// present ones, if there are many.
func (c *Checkpoint) joinStored(view uint32, w *frozen) error {
	was := w.record.ActorSets
	if len(was) <= maxStored {
		return nil
	}
	h, err := actors.PutSet(c.CAS, c.Union(actors.Changes{Stored: was}))
	if err != nil {
		return err
	}
	joined := slices.DeleteFunc([]cas.Hash{h}, cas.Hash.IsZero)
	w.record.ActorSets = joined
	c.Alter(func(*live.Tx) {
		if w, ok := c.Catalogue.Workspaces[view]; ok && slices.Equal(w.Early.Stored, was) {
			w.Early.Stored = joined
		}
	})
	return nil
}

// rejoin has the set of the last checkpoint in memory again, where an actor that changes
// what another one changed is found. The lock is held.
func (l *Loading) rejoin(tx *live.Tx, w *catalogue.Workspace) {
	early := &w.Early
	n := len(early.Stored) - 1
	if n < 0 {
		return
	}
	if set := l.Union(actors.Changes{Stored: early.Stored[n:]}); set.Size() <= maxKept {
		early.Stored = early.Stored[:n]
		tx.ReturnActors(w.View, []*actors.Set{set})
	}
}
