package catalogue

import (
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ErrNoFork is for a fork that there is not.
var ErrNoFork = errs.New(errs.NotExist, "no such fork")

// A Catalogue is every workspace and snapshot of a store. Whoever has it guards it by the lock
// of the workspaces' trees, so that a capture and its name are made in one step.
type Catalogue struct {
	Workspaces map[uint32]*Workspace // by view
	Snapshots  map[uint32]*Snapshot  // by view
	Unsealed   map[uint32]*Snapshot  // those of them that have no id yet
	// Dirty are the views of which the record changed since the last checkpoint, or was
	// removed, by its key. A checkpoint writes these, and workspaces whose trees changed.
	Dirty map[string]uint32
	// Altered are the workspaces whose Changes or ForkChanges grew, or that ended, since the
	// policies were last looked at.
	Altered map[uint32]bool
	Bytes   Sum // of the sizes of the snapshots' files
	// Roots are trees that records since the last checkpoint refer to.
	Roots []Root
}

func New() *Catalogue {
	return &Catalogue{Workspaces: make(map[uint32]*Workspace), Snapshots: make(map[uint32]*Snapshot), Unsealed: make(map[uint32]*Snapshot), Dirty: make(map[string]uint32), Altered: make(map[uint32]bool)}
}

// A Workspace is what the catalogue knows of a workspace.
type Workspace struct {
	WorkspaceRecord // but for what Stored sets
	Snapshots       List
	Forks           map[string]*Workspace
	At              uint64         // Views.Changed at the last capture
	Changes         uint64         // of the record, and of those of its snapshots
	ForkChanges     uint64         // of which forks there are in it, and until when they live
	Early           actors.Changes // of the present interval, from before the last checkpoint
	ended           bool           // and not in the catalogue any more
	Restored        []Restored     // of the snapshots that were restored last, oldest first
}

// A Restored is the state of a workspace right after a restore. It equals the
// snapshot but for the inode numbers of the files that the restore put in
// place: a comparison with the snapshot would look at each of these again, at
// every restore more of them. A small restore after a big one takes 0.25 ms with it,
// and 64 ms without.
type Restored struct {
	View  uint32 // of the snapshot
	State *tree.State
}

// maxRestored bounds how many snapshots a workspace goes back to at no more than
// the cost of what differs.
const maxRestored = 4

func (w *Workspace) keepRestored(view uint32, st *tree.State) {
	kept := slices.DeleteFunc(w.Restored, func(r Restored) bool { return r.View == view })
	w.Restored = append(kept[max(0, len(kept)-maxRestored+1):], Restored{view, st})
}

// RestoredState returns the state right after the last restore of a snapshot, nil if there is
// none.
func (w *Workspace) RestoredState(view uint32) *tree.State {
	for _, r := range w.Restored {
		if r.View == view {
			return r.State
		}
	}
	return nil
}

// Stored is the record of the workspace, but for the id of its state and what it exported.
func (w *Workspace) Stored(st *tree.State) WorkspaceRecord {
	r := w.WorkspaceRecord
	r.Inodes, r.Bytes = st.Inodes, st.Bytes
	r.Actors, r.ActorSets = w.Early.Names, w.Early.Stored
	return r
}

// Family calls fn for a workspace and all forks in it.
func (w *Workspace) Family(fn func(*Workspace)) {
	fn(w)
	for _, f := range w.Forks {
		f.Family(fn)
	}
}

// ForkNamed returns a fork of the workspace. ErrNoFork when there is none.
func (w *Workspace) ForkNamed(name string) (*Workspace, error) {
	f, ok := w.Forks[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q; see `ls .forks` or `amberfs forks`", ErrNoFork, name)
	}
	return f, nil
}

// AddWorkspace adds what a record describes.
func (c *Catalogue) AddWorkspace(r WorkspaceRecord) *Workspace {
	w := &Workspace{WorkspaceRecord: r, Forks: make(map[string]*Workspace)}
	w.Early = actors.Changes{Names: r.Actors, Stored: r.ActorSets}
	c.Workspaces[r.View] = w
	return w
}

// AddMain adds the workspace main as it is in a new store.
func (c *Catalogue) AddMain() *Workspace {
	return c.AddWorkspace(WorkspaceRecord{Name: "main", NextSeq: 1, Policy: policy.Default()})
}

// Link brings what was added of a checkpoint into order.
func (c *Catalogue) Link() {
	for _, w := range c.Workspaces {
		if p := c.Parent(w); p != nil {
			p.Forks[w.Name] = w
		}
		w.Snapshots.Sort()
	}
}

// Parent returns the workspace that a fork was made from, nil for main.
func (c *Catalogue) Parent(w *Workspace) *Workspace {
	if !w.Fork {
		return nil
	}
	return c.Workspaces[w.Parent]
}

// Uppermost is the fork of main in which a fork is, itself perhaps.
func (c *Catalogue) Uppermost(w *Workspace) *Workspace {
	for {
		up := c.Parent(w)
		if up == nil || !up.Fork {
			return w
		}
		w = up
	}
}

// Alive refuses what is asked of a fork that has ended.
func (w *Workspace) Alive() error {
	if w.ended {
		return fmt.Errorf("%w: %q was deleted", ErrNoFork, w.Name)
	}
	return nil
}

// WithOrigin returns the snapshots of a workspace, oldest first, and its base before them.
func (c *Catalogue) WithOrigin(w *Workspace) []*Snapshot {
	all := slices.Clone(w.Snapshots.All())
	if o, ok := c.Snapshots[w.Base]; ok {
		all = slices.Insert(all, 0, o)
	}
	return all
}

// Find resolves what a user calls a snapshot: a name, cp-<seq>, a prefix of
// its id, latest, undo, base, or label:KEY=VALUE for the newest with that label.
func (c *Catalogue) Find(w *Workspace, name string) (*Snapshot, error) {
	switch name {
	case "latest":
		if sn := w.Snapshots.Newest(); sn != nil {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: there is no snapshot yet", ErrNotFound)
	case "undo":
		if sn, ok := c.Snapshots[w.Undo]; ok && w.Undo != 0 {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: there is no restore to undo", ErrNotFound)
	case "base":
		if sn, ok := c.Snapshots[w.Base]; ok {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: this workspace has no base", ErrNotFound)
	}
	return w.Snapshots.Find(name)
}

// RemovedMeanwhile is the error of what began with a snapshot that was deleted since.
func RemovedMeanwhile(i info.Info) error {
	return fmt.Errorf("%w: snapshot %s was deleted meanwhile", ErrNotFound, i.Name)
}

// Touch notes that the record of a snapshot changed.
func (c *Catalogue) Touch(view uint32) {
	if sn, ok := c.Snapshots[view]; ok {
		c.Dirty[Key(Snapshots, view)] = view
		if w, ok := c.Workspaces[sn.WS]; ok {
			w.alter(c.Altered)
		}
	}
}

func (w *Workspace) alter(views map[uint32]bool) {
	w.Changes++
	views[w.View] = true
}

// TouchWorkspace notes that the record of a workspace changed.
func (c *Catalogue) TouchWorkspace(w *Workspace) {
	c.Dirty[Key(Workspaces, w.View)] = w.View
	w.alter(c.Altered)
}

// Add adds a snapshot, and reports whether it is to be sealed.
func (c *Catalogue) Add(s *Snapshot) (seal bool) {
	c.Snapshots[s.View] = s
	if !s.Sealed {
		c.Unsealed[s.View] = s
	}
	c.Bytes.Add(s.Bytes)
	c.Touch(s.View)
	w, ok := c.Workspaces[s.WS]
	if !ok || s.View == w.Before {
		return false // a bookmark has no number, and only a checkpoint seals it
	}
	if s.Seq >= w.NextSeq {
		w.NextSeq = s.Seq + 1
	}
	c.TouchWorkspace(w)
	if s.View != w.Base {
		w.Snapshots.Add(s)
	}
	return true
}

// SetID notes the id of a snapshot that was sealed, and how many bytes that added to the store.
func (c *Catalogue) SetID(sn *Snapshot, id cas.Hash, added int64) {
	if !sn.Sealed {
		sn.Hash, sn.ID, sn.Sealed, sn.UniqueBytes = id, id.String(), true, added
		forget(c.Unsealed, sn)
		c.Touch(sn.View)
	}
}

// forget is for a snapshot that has an id, or is removed. Then another one may have its
// number.
func forget(unsealed map[uint32]*Snapshot, sn *Snapshot) {
	if unsealed[sn.View] == sn {
		delete(unsealed, sn.View)
	}
}

// StoredSets are the objects of sets of actors that snapshots and workspaces refer to.
func (c *Catalogue) StoredSets() (out []cas.Hash) {
	for _, sn := range c.Snapshots {
		out = append(out, sn.Changes.Stored...)
	}
	for _, w := range c.Workspaces {
		out = append(out, w.Early.Stored...)
	}
	return out
}
