package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/room"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// catalogue is every workspace and snapshot of the store. It is guarded by
// the lock of the forest, so that a capture and its name come about in one
// step.
type catalogue struct {
	*core
	seal  *sealer
	ckpt  *checkpointer
	gc    *collector
	room  *room.Room
	meter *meter
	keep  *keeper
	// newWorkspace makes a workspace of the store that is not in the catalogue yet.
	newWorkspace func(view uint32, name string) *Workspace

	workspaces map[uint32]*Workspace // by view
	snaps      map[uint32]*snap      // by view
	dirty      dirty                 // since the last checkpoint
	bytes      int64                 // sum of the sizes of the snapshots' files
	// journalRoots are trees that records since the last checkpoint refer to.
	journalRoots []journalRoot
}

func newCatalogue(s *Store) *catalogue {
	return &catalogue{
		core: s.core, seal: &s.seal, ckpt: &s.ckpt, gc: &s.gc, room: &s.room, meter: &s.meter, keep: &s.keep,
		newWorkspace: func(view uint32, name string) *Workspace { return newWorkspace(s, view, name) },

		workspaces: make(map[uint32]*Workspace),
		snaps:      make(map[uint32]*snap),
		dirty:      newDirty(),
	}
}

// A journalRoot is a state, or the id of one that is not loaded.
type journalRoot struct {
	state *tree.State
	id    cas.Hash
}

// dirty are the views of snapshots that changed or were removed, and of workspaces that
// ended. A checkpoint writes all workspaces that there are.
type dirty struct{ snaps, ended map[uint32]bool }

func newDirty() dirty { return dirty{make(map[uint32]bool), make(map[uint32]bool)} }

func (d dirty) add(o dirty) {
	maps.Copy(d.snaps, o.snaps)
	maps.Copy(d.ended, o.ended)
}

// storedWorkspace is the catalogue's record of a workspace.
type storedWorkspace struct {
	View    uint32        `json:"view"`
	Parent  uint32        `json:"parent"`
	Fork    bool          `json:"fork"`
	Name    string        `json:"name"`
	NextSeq uint64        `json:"next_seq"`
	Base    uint32        `json:"base"`
	Undo    uint32        `json:"undo,omitempty"`
	Before  uint32        `json:"before,omitempty"`
	Head    string        `json:"head,omitempty"`
	Policy  policy.Policy `json:"policy"`
	Claim   string        `json:"claim,omitempty"`
	Expires *time.Time    `json:"expires,omitempty"`
	State   string        `json:"state"`
	Inodes  int64         `json:"inodes"`
	Bytes   int64         `json:"bytes"`
	Exports int64         `json:"exports,omitempty"` // bytes in the store's repository
	// Actors changed something since the newest snapshot, ActorSets are the objects that say what.
	Actors    []string   `json:"actors,omitempty"`
	ActorSets []cas.Hash `json:"actor_sets,omitempty"`
}

func snapKey(view uint32) string { return fmt.Sprintf("snap/%08x", view) }
func wsKey(view uint32) string   { return fmt.Sprintf("ws/%08x", view) }

const storeKey = "store"

func (c *catalogue) touchSnap(view uint32) {
	if sn, ok := c.snaps[view]; ok {
		c.dirty.snaps[view] = true
		c.changed(sn.ws)
	}
}

// changed counts a change of a workspace, see Workspace.Changes.
func (c *catalogue) changed(workspace uint32) {
	if w, ok := c.workspaces[workspace]; ok {
		w.changes++
	}
}

// add puts a snapshot into its workspace's list.
func (c *catalogue) add(s *snap) {
	c.snaps[s.View] = s
	c.bytes += s.Bytes
	c.touchSnap(s.View)
	w, ok := c.workspaces[s.ws]
	if !ok {
		return
	}
	if s.View == w.before {
		return // it has no number
	}
	if s.Seq >= w.nextSeq {
		w.nextSeq = s.Seq + 1
	}
	c.changed(s.ws)
	if s.View == w.base {
		return
	}
	w.snaps = append(w.snaps, s)
	w.byName[s.Name] = s
}

// remove takes snapshots out of their workspaces' lists, each of which is gone through
// once however many they are.
func (c *catalogue) remove(gone ...*snap) {
	listed := make(map[*Workspace][]*snap)
	for _, s := range gone {
		if c.snaps[s.View] == s {
			c.bytes -= s.Bytes
		}
		delete(c.snaps, s.View)
		c.dirty.snaps[s.View] = true
		w, ok := c.workspaces[s.ws]
		if !ok {
			continue
		}
		if w.byName[s.Name] == s {
			delete(w.byName, s.Name)
		}
		listed[w] = append(listed[w], s)
		c.changed(s.ws)
	}
	for w, gone := range listed {
		slices.SortFunc(gone, bySeq)
		first, _ := w.index(gone[0].Seq)
		kept := w.snaps[:first]
		for _, s := range w.snaps[first:] {
			for len(gone) > 0 && gone[0].Seq < s.Seq {
				gone = gone[1:] // it was not in the list
			}
			if len(gone) > 0 && gone[0] == s {
				gone = gone[1:]
				continue
			}
			kept = append(kept, s)
		}
		clear(w.snaps[len(kept):])
		w.snaps = kept
	}
}

func bySeq(a, b *snap) int { return cmp.Compare(a.Seq, b.Seq) }

// link brings what was read of the catalogue into order.
func (c *catalogue) link() {
	for _, w := range c.workspaces {
		if p := c.parent(w); p != nil {
			p.forks[w.name] = w
		}
		slices.SortFunc(w.snaps, bySeq)
	}
}

// parent returns the workspace that a fork was made from, nil for main.
func (c *catalogue) parent(w *Workspace) *Workspace {
	if !w.fork {
		return nil
	}
	return c.workspaces[w.parent]
}

// withOrigin returns the snapshots of a workspace, oldest first.
func (c *catalogue) withOrigin(w *Workspace) []*snap {
	all := slices.Clone(w.snaps)
	if o, ok := c.snaps[w.base]; ok {
		all = slices.Insert(all, 0, o)
	}
	return all
}

// readView finds the state of a snapshot's view. The lock of the forest is
// held at least for reading.
func (c *catalogue) readView(view uint32) (*tree.State, error) {
	sn, ok := c.snaps[view]
	if !ok {
		return nil, errs.Stale
	}
	return c.stateOf(sn)
}

func (c *catalogue) stateOf(sn *snap) (*tree.State, error) {
	if st := sn.state.Load(); st != nil {
		return st, nil
	}
	st, err := tree.Load(c.src, sn.id)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", sn.Name, err)
	}
	sn.state.Store(st)
	return st, nil
}

// find resolves what a user calls a snapshot: a name, cp-<seq>, a prefix of
// its id, latest, undo, base, or label:KEY=VALUE for the newest with that label.
func (c *catalogue) find(w *Workspace, name string) (*snap, error) {
	switch name {
	case "latest":
		if n := len(w.snaps); n > 0 {
			return w.snaps[n-1], nil
		}
		return nil, fmt.Errorf("%w: there is no snapshot yet", ErrNotFound)
	case "undo":
		if sn, ok := c.snaps[w.undo]; ok && w.undo != 0 {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: there is no restore to undo", ErrNotFound)
	case "base":
		if sn, ok := c.snaps[w.base]; ok {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: this workspace has no base", ErrNotFound)
	}
	if sn, ok := w.byName[name]; ok {
		return sn, nil
	}
	if digits, ok := strings.CutPrefix(name, "cp-"); ok {
		if seq, err := strconv.ParseUint(digits, 10, 64); err == nil {
			if i, found := w.index(seq); found {
				return w.snaps[i], nil
			}
		}
	}
	if label, ok := strings.CutPrefix(name, "label:"); ok {
		key, value, _ := strings.Cut(label, "=")
		if sn := w.Snapshots().labelled(key, value); sn != nil {
			return sn, nil
		}
	}
	if sn, err := findByID(w, name); sn != nil || err != nil {
		return sn, err
	}
	return nil, fmt.Errorf("%w: %q; see .snapshots/list or `amberfs list`", ErrNotFound, name)
}

func findByID(w *Workspace, prefix string) (*snap, error) {
	if len(prefix) < 8 || len(prefix) > 64 || strings.Trim(prefix, "0123456789abcdef") != "" {
		return nil, nil
	}
	var found *snap
	for _, sn := range slices.Backward(w.snaps) {
		if !strings.HasPrefix(sn.ID, prefix) {
			continue
		}
		if found != nil && found.ID != sn.ID {
			return nil, fmt.Errorf("%w: id %s… is not unique; give more digits", ErrNotFound, prefix)
		}
		if found == nil {
			found = sn
		}
	}
	return found, nil
}
