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

// Roots are the states and objects that a gc keeps, with all objects below them. This is the
// complete list:
//
//  1. the present state of each workspace
//  2. the states after the last restores of a workspace (catalogue.Workspace.Restored)
//  3. the state of each snapshot in the catalogue, the base of each workspace among them
//  4. the states of journal records since the last checkpoint (catalogue.Unwritten.Roots)
//  5. inodes without a name that the kernel may still reference
//  6. the states of the last checkpoint, from which recovery would start
//  7. states that are being read (Parts.Pins)
//  8. the states of directories that workspaces and snapshots were refreshed from, and the states of
//     operations (catalogue.WorkspaceRecord.OpIDs)
//  9. the actor sets of snapshots and workspaces, the present ones and the ones of the last
//     checkpoint, and the receipts of what was forgotten
//
// The package comment explains why these are enough.
type Roots struct {
	*Parts
	states []*tree.State // states that are in memory
	stored []storedState
	snaps  []*catalogue.Snapshot
	Sets   []cas.Hash      // actor sets, receipts, and descriptions of files that are not sealed
	dirs   map[string]bool // ids of states of directories
}

// A storedState is a state that is not in memory.
type storedState struct {
	view uint32 // the workspace of the state, or main if it is not known
	id   cas.Hash
}

// Roots takes the roots that are in memory in one step. No checkpoint may be running.
func (p *Parts) Roots() (*Roots, error) {
	r := &Roots{Parts: p, dirs: make(map[string]bool)}
	err := p.Forest.Update(true, func(tx *live.Tx) error {
		for _, w := range p.Catalogue.Workspaces.All() {
			r.states = append(r.states, w.Freeze(tx))
			r.dirs[w.Dir] = true
			r.addDirs(w.OpIDs())
			w.Restored = slices.DeleteFunc(w.Restored, func(at catalogue.RestoreResult) bool { return p.Catalogue.Snapshots.At(at.View) == nil })
			for _, at := range w.Restored {
				r.states = append(r.states, at.State)
			}
		}

		for _, sn := range p.Catalogue.Snapshots.All() {
			r.snaps = append(r.snaps, sn)
		}
		for _, root := range p.Catalogue.Unwritten.Roots() {
			r.add(root, live.MainView)
		}

		r.Sets = p.Catalogue.Leaves()
		orphans, err := tx.Orphans(p.Catalogue.Workspaces.Views())
		r.states = slices.AppendSeq(r.states, maps.Values(orphans))
		r.states = append(r.states, p.Pins.all()...)

		return err
	})

	return r, err
}

func (r *Roots) addDirs(ids []string) {
	for _, id := range ids {
		r.dirs[id] = true
	}
}

func (r *Roots) add(root catalogue.Root, view uint32) {
	if root.State != nil {
		r.states = append(r.states, root.State)
	} else {
		r.stored = append(r.stored, storedState{view, root.ID})
	}
}

// Read adds the roots of the last checkpoint, which may be newer than the call of Parts.Roots.
func (r *Roots) Read() error {
	// Sort the snapshots of each workspace by age, because each shares most objects with the one
	// before.
	slices.SortFunc(r.snaps, func(a, b *catalogue.Snapshot) int {
		return cmp.Or(cmp.Compare(a.WS, b.WS), cmp.Compare(a.View, b.View))
	})
	r.WithReadLock(func(*live.Tx) {
		for _, sn := range r.snaps {
			r.add(sn.Root(), sn.WS)
			r.dirs[sn.Dir] = true
		}
	})

	r.snaps = nil

	// record has the fields of interest of the records of workspaces and snapshots.
	type record struct {
		View      uint32            `json:"view"`
		WS        uint32            `json:"ws"`
		ID        string            `json:"id"`
		State     string            `json:"state"`
		Partly    *catalogue.Partly `json:"partly"`
		Orphans   *catalogue.Partly `json:"orphans"`
		ActorSets []cas.Hash        `json:"actor_sets"`
		Dir       string            `json:"dir"`
		Ops       []catalogue.Op    `json:"ops"`
	}

	for _, prefix := range []string{catalogue.Snapshots, catalogue.Workspaces} {
		if err := catalogue.Scan(r.CAS, prefix, func(rec record) error {
			r.Sets = append(r.Sets, rec.ActorSets...)
			r.dirs[rec.Dir] = true
			r.addDirs((&catalogue.WorkspaceRecord{Ops: rec.Ops}).OpIDs())
			view := rec.View
			if prefix == catalogue.Snapshots {
				view = rec.WS
			}

			for _, part := range []*catalogue.Partly{rec.Partly, rec.Orphans} {
				if part == nil {
					continue
				}
				st, err := part.Load(r.Source, 1)
				if err != nil {
					return err
				}

				r.Sets = append(r.Sets, part.Files...)
				r.add(catalogue.Root{ID: part.State}, view)
				r.add(catalogue.Root{State: st}, view)
			}
			if rec.Partly != nil {
				return nil
			}

			h, err := cas.ParseHash(rec.ID + rec.State) // one of them is empty
			r.add(catalogue.Root{ID: h}, view)

			return err
		}); err != nil {
			return err
		}
	}

	delete(r.dirs, "")

	for dir := range r.dirs {
		h, err := cas.ParseHash(dir)
		if err != nil {
			return err
		}
		r.add(catalogue.Root{ID: h}, live.MainView)
	}

	slices.SortStableFunc(r.stored, func(a, b storedState) int { return cmp.Compare(a.view, b.view) })

	return nil
}

// Each calls fn for each state of the roots, after Read.
func (r *Roots) Each(fn func(*tree.State) error) error {
	known := make(map[cas.Hash]bool, len(r.stored))

	for _, at := range r.stored {
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
