package snapshot

import (
	"fmt"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// entries is every workspace and snapshot of the store. It is guarded by
// the lock of the forest, so that a capture and its name are made in one
// step.
type entries struct {
	*Store
	workspaces map[uint32]*Workspace // by view
	snaps      map[uint32]*snap      // by view
	// dirty are the views of which the record changed since the last checkpoint, or was
	// removed, by its key. A checkpoint writes all workspaces that there are.
	dirty    map[string]uint32
	bytes    int64   // sum of the sizes of the snapshots' files
	captured []Event // of snapshots between two actors, not reported yet
	// journalRoots are trees that records since the last checkpoint refer to.
	journalRoots []catalogue.Root
}

func newEntries(s *Store) *entries {
	return &entries{Store: s, workspaces: make(map[uint32]*Workspace), snaps: make(map[uint32]*snap), dirty: make(map[string]uint32)}
}

func (c *entries) touchSnap(view uint32) {
	if sn, ok := c.snaps[view]; ok {
		c.dirty[catalogue.Key(catalogue.Snapshots, view)] = view
		c.changed(sn.WS)
	}
}

// changed counts a change of a workspace, see Workspace.Changes.
func (c *entries) changed(workspace uint32) {
	if w, ok := c.workspaces[workspace]; ok {
		w.changes++
	}
}

func (c *entries) add(s *snap) {
	c.snaps[s.View] = s
	c.bytes += s.Bytes
	c.touchSnap(s.View)
	w, ok := c.workspaces[s.WS]
	if !ok || s.View == w.rec.Before {
		return // a bookmark has no number, and only a checkpoint seals it
	}
	c.seal.Push(s)
	if s.Seq >= w.rec.NextSeq {
		w.rec.NextSeq = s.Seq + 1
	}
	c.changed(s.WS)
	if s.View == w.rec.Base {
		return
	}
	w.snaps.Add(s)
}

func (c *entries) remove(gone ...*snap) {
	for _, s := range gone {
		if c.snaps[s.View] == s {
			c.bytes -= s.Bytes
			c.ckpt.removed(s.View)
		}
		delete(c.snaps, s.View)
		c.dirty[catalogue.Key(catalogue.Snapshots, s.View)] = s.View
	}
	for w, gone := range c.byWorkspace(gone) {
		w.snaps.Remove(gone)
		c.changed(w.rec.View)
	}
}

func (c *entries) byWorkspace(snaps []*snap) map[*Workspace][]*snap {
	of := make(map[*Workspace][]*snap)
	for _, s := range snaps {
		if w, ok := c.workspaces[s.WS]; ok {
			of[w] = append(of[w], s)
		}
	}
	return of
}

// Turns implements sealing.Catalogue.
func (c *entries) Turns(view uint32) (turns *semaphore.Weighted) {
	c.look(func(*live.Tx) {
		if w, ok := c.workspaces[view]; ok {
			turns = w.uppermost().sealing
		} else {
			turns = semaphore.NewWeighted(1) // of a fork that has ended
		}
	})
	return turns
}

// Needed implements sealing.Catalogue. No process needs the chunks of a snapshot that was
// removed.
func (c *entries) Needed(sn *snap) (name string, needed bool) {
	c.look(func(*live.Tx) { name, needed = sn.Name, c.snaps[sn.View] == sn || sn.Wanted })
	return name, needed
}

// Sealed implements sealing.Catalogue.
func (c *entries) Sealed(sn *snap, id cas.Hash, added int64) {
	c.alter(func(*live.Tx) {
		if !sn.Sealed {
			sn.Hash, sn.ID, sn.Sealed, sn.UniqueBytes = id, id.String(), true, added
			c.touchSnap(sn.View)
		}
	})
}

// link brings what was read of the catalogue into order.
func (c *entries) link() {
	for _, w := range c.workspaces {
		if p := c.parent(w); p != nil {
			p.forks[w.rec.Name] = w
		}
		w.snaps.Sort()
	}
}

// parent returns the workspace that a fork was made from, nil for main.
func (c *entries) parent(w *Workspace) *Workspace {
	if !w.rec.Fork {
		return nil
	}
	return c.workspaces[w.rec.Parent]
}

// withOrigin returns the snapshots of a workspace, oldest first.
func (c *entries) withOrigin(w *Workspace) []*snap {
	all := slices.Clone(w.snaps.All())
	if o, ok := c.snaps[w.rec.Base]; ok {
		all = slices.Insert(all, 0, o)
	}
	return all
}

// readView finds the state of a snapshot's view. The lock of the forest is
// held at least for reading.
func (c *entries) readView(view uint32) (*tree.State, error) {
	sn, ok := c.snaps[view]
	if !ok {
		return nil, errs.Stale
	}
	return sn.Tree(c.src)
}

// find resolves what a user calls a snapshot: a name, cp-<seq>, a prefix of
// its id, latest, undo, base, or label:KEY=VALUE for the newest with that label.
func (c *entries) find(w *Workspace, name string) (*snap, error) {
	switch name {
	case "latest":
		if sn := w.snaps.Newest(); sn != nil {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: there is no snapshot yet", ErrNotFound)
	case "undo":
		if sn, ok := c.snaps[w.rec.Undo]; ok && w.rec.Undo != 0 {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: there is no restore to undo", ErrNotFound)
	case "base":
		if sn, ok := c.snaps[w.rec.Base]; ok {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: this workspace has no base", ErrNotFound)
	}
	return w.snaps.Find(name)
}
