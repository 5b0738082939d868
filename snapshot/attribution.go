package snapshot

import (
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

const (
	// maxStored is how many objects the changes of an interval have after a checkpoint.
	maxStored = 16
	// maxKept is how many bytes the sets of a workspace take in memory after a checkpoint.
	// Of what is only on disk an actor changes more without a snapshot before.
	maxKept = 1 << 20
)

// presentChanges are those since the newest snapshot. The lock is held.
func (ss Snapshots) presentChanges(tx *live.Tx) actors.Changes {
	c := ss.w.early
	c.Take(actors.ChangesOf(tx.Actors(ss.w.rec.View)))
	return c
}

// presentActors are those that changed anything since the newest snapshot. The lock is
// held at least for reading.
func (ss Snapshots) presentActors(tx *live.Tx) []string {
	return actors.JoinNames(ss.w.early.Names, tx.ActorNames(ss.w.rec.View))
}

// endInterval returns the changes since the newest snapshot, for the next one. The lock is
// held.
func (ss Snapshots) endInterval(tx *live.Tx) actors.Changes {
	c := ss.w.early
	c.Take(actors.ChangesOf(tx.NextInterval(ss.w.rec.View)))
	ss.w.early = actors.Changes{}
	return c
}

// allChanges are those since the workspace began. The lock is held.
func (ss Snapshots) allChanges(tx *live.Tx) actors.Changes {
	c := ss.presentChanges(tx)
	for _, sn := range ss.w.snaps.All() {
		if sn.Past() {
			c.Take(sn.Changes)
		}
	}
	return c
}

func (s *core) union(c actors.Changes) *actors.Set { return c.Union(s.objects, s.logger) }

// passOn gives the changes of snapshots that are to be removed to the next newer one of
// their workspace, or to the present. The lock is held.
func (c *entries) passOn(tx *live.Tx, gone []*snap) {
	for w, gone := range c.byWorkspace(gone) {
		present, heirs := w.snaps.PassOn(gone)
		for _, p := range present {
			w.early.Take(actors.Changes{Names: p.Names, Stored: p.Stored})
			tx.ReturnActors(w.rec.View, p.Sets)
		}
		for _, sn := range heirs {
			c.touchSnap(sn.View)
		}
	}
}

// storeChanges writes the sets of a snapshot as one object, and joins objects if there are
// many. The caller is in gc.Puts.
func (s *core) storeChanges(sn *snap) error {
	var was actors.Changes
	s.look(func(*live.Tx) { was = sn.Changes })
	if len(was.Sets) == 0 && len(was.Stored) <= maxStored {
		return nil
	}
	if len(was.Stored) <= maxStored {
		was.Stored = nil
	}
	h, err := actors.PutSet(s.cas, s.union(was))
	if err != nil {
		return err
	}
	s.alter(func(*live.Tx) {
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

// actorSets are the objects of the sets of a snapshot.
func (s *Store) actorSets(view uint32) (stored []cas.Hash, err error) {
	defer s.gc.Puts.Enter()()
	var sn *snap
	s.look(func(*live.Tx) { sn = s.cat.snaps[view] })
	if sn != nil {
		err = s.storeChanges(sn)
		s.look(func(*live.Tx) { stored = sn.Changes.Stored })
	}
	return stored, err
}

// storeActors writes the sets of all snapshots and workspaces of a checkpoint. The caller
// is in gc.Puts.
func (p *checkpointer) storeActors(c *checkpoint) error {
	for _, sn := range sortedSnaps(c.snaps) {
		if err := p.storeChanges(sn); err != nil {
			return err
		}
	}
	for view, w := range c.workspaces {
		if err := p.joinStored(view, w); err != nil {
			return err
		}
		set := actors.Union(w.actors...)
		h, err := actors.PutSet(p.cas, set)
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
		p.alter(func(tx *live.Tx) {
			if set.Size() <= maxKept {
				tx.JoinActors(view, w.actors, set)
			} else if tx.JoinActors(view, w.actors, nil) {
				p.cat.workspaces[view].early.Take(stored)
			}
		})
	}
	return nil
}

// joinStored makes one object of those that have the changes of a workspace before the
// present ones, if there are many.
func (p *checkpointer) joinStored(view uint32, w *frozen) error {
	was := w.record.ActorSets
	if len(was) <= maxStored {
		return nil
	}
	h, err := actors.PutSet(p.cas, p.union(actors.Changes{Stored: was}))
	if err != nil {
		return err
	}
	joined := slices.DeleteFunc([]cas.Hash{h}, cas.Hash.IsZero)
	w.record.ActorSets = joined
	p.alter(func(*live.Tx) {
		if w, ok := p.cat.workspaces[view]; ok && slices.Equal(w.early.Stored, was) {
			w.early.Stored = joined
		}
	})
	return nil
}

// rejoin has the set of the last checkpoint in memory again, where an actor that changes
// what another one changed is found. The lock is held.
func (ss Snapshots) rejoin(tx *live.Tx) {
	early := &ss.w.early
	n := len(early.Stored) - 1
	if n < 0 {
		return
	}
	if set := ss.w.store.union(actors.Changes{Stored: early.Stored[n:]}); set.Size() <= maxKept {
		early.Stored = early.Stored[:n]
		tx.ReturnActors(ss.w.rec.View, []*actors.Set{set})
	}
}

// storedSets are the objects of sets that snapshots and workspaces in memory refer to. The
// lock is held.
func (c *entries) storedSets() (out []cas.Hash) {
	for _, sn := range c.snaps {
		out = append(out, sn.Changes.Stored...)
	}
	for _, w := range c.workspaces {
		out = append(out, w.early.Stored...)
	}
	return out
}

// between takes a snapshot before an actor changes what another one changed.
func (c *entries) between(tx *live.Tx, view uint32, by string) error {
	w, ok := c.workspaces[view]
	if !ok {
		return nil
	}
	limit := c.workspaces[live.MainView].rec.Policy.Forks.Snapshots
	if w.rec.Fork && limit > 0 && w.snaps.Len() >= limit/2 {
		return nil // the rest is for those that a reader asks for
	}
	r, err := w.Snapshots().newSnapshot(tx, CaptureOptions{Kind: KindActor, Message: "before a change by " + by})
	if err != nil {
		return err
	}
	if err := c.commit(tx, recCapture, &captureRecord{r}); err != nil {
		return err
	}
	c.captured = append(c.captured, Event{Workspace: view, Action: "captured", From: r.Name})
	c.keep.Signal.Up()
	return nil
}
