package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// An owner is a counted snapshot, or a counted fork with its snapshots and the forks in it. Each
// object of the store has one owner.
type owner struct {
	info.UsedBy
	Seq uint64 // sequence number of a snapshot; 0 for a fork
}

var (
	// restOfStore owns the objects that stay when the counted snapshots are deleted.
	restOfStore = &owner{}
	// severalSnapshots owns objects that are used by several counted snapshots and by no other state.
	severalSnapshots = &owner{Seq: 1}
)

// commonOwner returns the owner of an object that both a and b use.
func commonOwner(a, b *owner) *owner {
	switch {
	case a == b:
		return a
	case a.Seq > 0 && b.Seq > 0:
		return severalSnapshots
	}
	return restOfStore
}

// An ownedState is a state whose objects are used by an owner.
type ownedState struct {
	by *owner
	catalogue.Root
}

// order returns the sort key of a state for the count. States of restOfStore come first, so that the
// walks of later states stop at their objects. Snapshots follow by sequence number, which is also
// the order of their objects in the packs.
func (h ownedState) order() uint64 {
	if h.by == restOfStore {
		return 0
	}
	return 1 + h.by.Seq
}

// DiskUsage counts the bytes that a deletion of each of the named snapshots of a workspace, and of
// all of them together, would free. Without names it counts all snapshots and forks of the
// workspace. The caller has sealed all states and has entered Collector.Puts. DiskUsage needs about
// 100 bytes of memory for each object.
func (p *Parts) DiskUsage(ctx context.Context, ws *catalogue.Workspace, names []string) (*info.Disk, error) {
	var kept []ownedState
	var err error
	p.WithLock(func(tx *live.Tx) { kept, err = p.ownedStates(tx, ws, names) })
	if err != nil {
		return nil, err
	}

	slices.SortStableFunc(kept, func(a, b ownedState) int { return cmp.Compare(a.order(), b.order()) })

	has := make(map[cas.Hash]*owner)
	var by *owner
	mark := func(id cas.Hash) (more bool) {
		if !p.Objects.MayBeInStore(id) {
			return false
		}
		before, known := has[id]
		now := by
		if known {
			now = commonOwner(before, by)
		}

		has[id] = now

		return !known || now != before // if the owner is unchanged, the objects below have this owner already
	}

	for _, k := range kept {
		by = k.by
		st, err := k.Load(p.Source)
		if err != nil {
			return nil, NeedsRepair(err)
		}
		if err := st.Mark(ctx, p.Source, nil, p.Incomplete.Load(), mark); err != nil {
			return nil, NeedsRepair(err)
		}
	}

	out, err := sum(p.CAS, has, kept)
	return out, NeedsRepair(err)
}

// sum adds up the sizes of the objects by owner.
func sum(store *cas.Store, has map[cas.Hash]*owner, kept []ownedState) (*info.Disk, error) {
	out := &info.Disk{Snapshots: []info.UsedBy{}, Forks: []info.UsedBy{}, Stored: store.Stats().Stored}
	if err := store.Sizes(func(id cas.Hash, bytes int64) {
		o := has[id]
		if o == nil || o == restOfStore {
			return
		}
		if o != severalSnapshots {
			o.Bytes += bytes
		}
		if o.Seq > 0 {
			out.Together += bytes
		}
	}); err != nil {
		return nil, err
	}

	seen := map[*owner]bool{restOfStore: true}

	for _, k := range slices.Backward(kept) { // newest first
		switch {
		case seen[k.by]:
		case k.by.Seq > 0:
			out.Snapshots = append(out.Snapshots, k.by.UsedBy)
		default:
			out.Forks = append(out.Forks, k.by.UsedBy)
		}

		seen[k.by] = true
	}

	slices.SortFunc(out.Forks, func(a, b info.UsedBy) int { return strings.Compare(a.Name, b.Name) })

	return out, nil
}

// ownedStates returns all states of the store with their owners. The caller holds the lock of the
// forest.
func (p *Parts) ownedStates(tx *live.Tx, ws *catalogue.Workspace, names []string) (kept []ownedState, err error) {
	asked := make(map[*catalogue.Snapshot]bool)
	for _, name := range names {
		sn, err := p.Catalogue.Find(ws, name)
		if err != nil {
			return nil, err
		}
		asked[sn] = true
	}

	forks := make(map[*catalogue.Workspace]*owner) // the forks of ws, and the forks in them
	if len(names) == 0 {
		for _, f := range ws.Forks {
			o := &owner{UsedBy: info.UsedBy{Name: f.Name}}
			st := f.Present(tx)
			o.Files, o.Size = st.Inodes-1, st.Bytes
			f.Family(func(in *catalogue.Workspace) { forks[in] = o })
		}
	}

	by := func(w *catalogue.Workspace) *owner {
		if o, ok := forks[w]; ok {
			return o
		}
		return restOfStore
	}

	snaps := make(map[uint32]*owner)

	for view, sn := range p.Catalogue.Snapshots.All() {
		w := p.Catalogue.Workspaces.At(sn.WS)
		o := by(w)
		if w == ws && view != w.Base && view != w.Before && !p.Catalogue.Hidden(sn) && (len(names) == 0 || asked[sn]) {
			o = &owner{UsedBy: info.UsedBy{Name: sn.Name, Files: sn.Files, Size: sn.Bytes}, Seq: sn.Seq}
		}

		snaps[view] = o
		kept = append(kept, ownedState{by: o, Root: sn.Root()})
	}

	for _, w := range p.Catalogue.Workspaces.All() {
		kept = append(kept, ownedState{by: by(w), Root: catalogue.Root{State: w.Freeze(tx)}})
		for _, r := range w.Restored {
			if o, ok := snaps[r.View]; ok {
				kept = append(kept, ownedState{by: o, Root: catalogue.Root{State: r.State}})
			}
		}
	}

	return kept, nil
}
