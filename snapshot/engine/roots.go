package engine

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Roots are the states and objects that a gc keeps, with all objects below them. This is the
// complete list:
//
//  1. the present state of each workspace
//  2. the states after the last restores of a workspace (catalogue.Catalogue.RestoreResults)
//  3. the state of each snapshot in the catalogue, the base of each workspace among them
//  4. the states of journal records since the last checkpoint (catalogue.UnwrittenRecords.Roots)
//  5. inodes without a name that the kernel may still reference
//  6. the states of the last checkpoint, from which recovery would start
//  7. states that are being read (Parts.Pins)
//  8. the states of directories that workspaces and snapshots were refreshed from, and the states of
//     operations (catalogue.WorkspaceRecord.OpStateIDs)
//  9. the actor sets of the present and of the last checkpoint's snapshots and workspaces, and the
//     receipts of forgotten contents (catalogue.Catalogue.Forgotten)
//
// The package comment explains why these are enough.
type Roots struct {
	*Parts
	states        []*tree.State // states that are in memory
	storedStates  []storedState
	Snapshots     []SnapshotRoot    // sealed snapshots, by workspace and age
	unwrittenKeys map[string]uint32 // keys of records of the last checkpoint that differ from the catalogue
	LeafObjects   []cas.Hash        // actor sets, receipts, and descriptions of files that are not sealed
	dirStates     map[string]bool   // ids of the states in item 8

	readStoredSnapshots func(fn func(*catalogue.SnapshotRecord) error) error // reads the records of the snapshots that are not in memory
}

// A SnapshotRoot names the objects of a sealed snapshot: its state and its actor sets.
type SnapshotRoot struct {
	WS, View  uint32
	ID        cas.Hash
	ActorSets []cas.Hash // its actor sets
}

// Key returns a hash of ID and ActorSets. Roots with equal keys reference the same objects.
func (r *SnapshotRoot) Key() cas.Hash {
	if len(r.ActorSets) == 0 {
		return r.ID
	}

	text := slices.Clone(r.ID[:])
	for _, h := range r.ActorSets {
		text = append(text, h[:]...)
	}

	return cas.Sum(text)
}

// A storedState is a state that is not in memory.
type storedState struct {
	view uint32 // the workspace of the state, or main if it is not known
	id   cas.Hash
}

// Roots collects the roots that are in memory, all at one instant. No checkpoint may be running.
func (p *Parts) Roots() (*Roots, error) {
	r := &Roots{Parts: p, dirStates: make(map[string]bool)}
	err := p.Forest.Update(true, func(tx *live.Tx) error {
		for _, w := range p.Catalogue.Workspaces.All() {
			r.states = append(r.states, tx.Freeze(w.View))
			r.dirStates[w.DirState] = true
			r.addDirStates(w.OpStateIDs())
			for _, at := range p.Catalogue.RestoreResults(w) {
				r.states = append(r.states, at.State)
			}
		}

		r.readStoredSnapshots = p.Catalogue.OnlyStoredRecords(p.CAS)
		for _, sn := range p.Catalogue.Snapshots.Loaded() {
			r.addSnapshot(sn)
		}
		for _, root := range p.Catalogue.Unwritten.Roots() {
			r.addRoot(root, live.MainView)
		}

		r.unwrittenKeys = p.Catalogue.Unwritten.Keys()
		r.LeafObjects = append(r.LeafObjects, p.Catalogue.LeafObjects()...)
		orphans, err := tx.Orphans(p.Catalogue.Workspaces.Views())
		r.states = slices.AppendSeq(r.states, maps.Values(orphans))
		r.states = append(r.states, p.Pins.states()...)

		return err
	})

	return r, err
}

func (r *Roots) addSnapshot(sn *catalogue.Snapshot) {
	r.dirStates[sn.DirState] = true
	if sn.Sealed {
		r.Snapshots = append(r.Snapshots, SnapshotRoot{sn.WS, sn.View, sn.Hash, sn.Changes().Stored})
		return
	}

	r.states = append(r.states, sn.State.Load())
	r.LeafObjects = append(r.LeafObjects, sn.Changes().Stored...)
}

func (r *Roots) addDirStates(ids []string) {
	for _, id := range ids {
		r.dirStates[id] = true
	}
}

func (r *Roots) addRoot(root catalogue.Root, view uint32) {
	if root.State != nil {
		r.states = append(r.states, root.State)
	} else {
		r.storedStates = append(r.storedStates, storedState{view, root.ID})
	}
}

// ReadCheckpoint adds the snapshots that were not in memory at the call of Parts.Roots, and the roots of the last
// checkpoint. The checkpoint may be newer than the call of Parts.Roots. This is safe: its objects are then below
// roots that r already has, or were put after the gc began, and the gc removes no such object.
func (r *Roots) ReadCheckpoint() error {
	if err := r.readStoredSnapshots(func(sn *catalogue.SnapshotRecord) error {
		r.dirStates[strings.Clone(sn.DirState)] = true
		id, err := cas.ParseHash(sn.ID)
		r.Snapshots = append(r.Snapshots, SnapshotRoot{sn.WS, sn.View, id, sn.ActorSets})
		return err
	}); err != nil {
		return err
	}

	// Sort by age: each snapshot shares most objects with the snapshot before it.
	slices.SortStableFunc(r.Snapshots, func(a, b SnapshotRoot) int {
		return cmp.Or(cmp.Compare(a.WS, b.WS), cmp.Compare(a.View, b.View))
	})

	// record has the fields with roots, of the records of workspaces and of snapshots.
	type record struct {
		View      uint32                       `json:"view"`
		WS        uint32                       `json:"ws"`
		ID        string                       `json:"id"`
		State     string                       `json:"state"`
		Partly    *catalogue.PartlySealedState `json:"partly"`
		Orphans   *catalogue.PartlySealedState `json:"orphans"`
		ActorSets []cas.Hash                   `json:"actor_sets"`
		Dir       string                       `json:"dir"`
		Ops       []catalogue.Op               `json:"ops"`
	}

	// Read only the unwritten records of snapshots: all others are equal to the catalogue.
	prefixes := []string{catalogue.WorkspacePrefix}
	for key := range r.unwrittenKeys {
		if strings.HasPrefix(key, catalogue.SnapshotPrefix) {
			prefixes = append(prefixes, key)
		}
	}

	for _, prefix := range prefixes {
		if err := catalogue.Scan(r.CAS, prefix, func(rec record) error {
			r.LeafObjects = append(r.LeafObjects, rec.ActorSets...)
			r.dirStates[rec.Dir] = true
			r.addDirStates((&catalogue.WorkspaceRecord{Ops: rec.Ops}).OpStateIDs())
			view := rec.View
			if prefix != catalogue.WorkspacePrefix {
				view = rec.WS
			}

			for _, part := range []*catalogue.PartlySealedState{rec.Partly, rec.Orphans} {
				if part == nil {
					continue
				}
				st, err := part.Load(r.Source, 1)
				if err != nil {
					return err
				}

				r.LeafObjects = append(r.LeafObjects, part.Files...)
				r.addRoot(catalogue.Root{ID: part.State}, view)
				r.addRoot(catalogue.Root{State: st}, view)
			}
			if rec.Partly != nil {
				return nil
			}

			h, err := cas.ParseHash(rec.ID + rec.State) // a snapshot has only ID, a workspace only State
			r.addRoot(catalogue.Root{ID: h}, view)

			return err
		}); err != nil {
			return err
		}
	}

	delete(r.dirStates, "")

	for dir := range r.dirStates {
		h, err := cas.ParseHash(dir)
		if err != nil {
			return err
		}
		r.addRoot(catalogue.Root{ID: h}, live.MainView)
	}

	slices.SortStableFunc(r.storedStates, func(a, b storedState) int { return cmp.Compare(a.view, b.view) })

	return nil
}

// EachState calls fn for each state of the roots except Snapshots. The caller has called ReadCheckpoint.
func (r *Roots) EachState(fn func(*tree.State) error) error {
	known := make(map[cas.Hash]bool, len(r.storedStates))

	for _, at := range r.storedStates {
		if known[at.id] {
			continue
		}
		known[at.id] = true
		st, err := tree.Load(r.Source, at.id)
		if errors.Is(err, cas.ErrNotFound) && r.Incomplete.Load() {
			continue // the whole state is lost
		}
		if err != nil {
			return err
		}
		if err := fn(st); err != nil {
			return err
		}
	}

	for _, st := range r.states {
		if err := fn(st); err != nil {
			return err
		}
	}

	return nil
}
