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
	owner *owner
	catalogue.Root
}

// sortKey returns the sort key of a state for the count. States of restOfStore come first, so that the
// walks of later states stop at their objects. Snapshots follow by sequence number, which is also
// the order of their objects in the packs.
func (h ownedState) sortKey() uint64 {
	if h.owner == restOfStore {
		return 0
	}
	return 1 + h.owner.Seq
}

// DiskUsage counts the bytes that a deletion of each of the named snapshots of a workspace, and of
// all of them together, would free. Without names it counts all snapshots and forks of the
// workspace. The caller has sealed all states and has entered Collector.Puts. DiskUsage needs about
// 100 bytes of memory for each object.
func (p *Parts) DiskUsage(ctx context.Context, ws *catalogue.Workspace, names []string) (*info.Disk, error) {
	var states []ownedState
	var err error
	p.Forest.WithLock(func(tx *live.Tx) { states, err = p.ownedStates(tx, ws, names) })
	if err != nil {
		return nil, err
	}

	slices.SortStableFunc(states, func(a, b ownedState) int { return cmp.Compare(a.sortKey(), b.sortKey()) })

	owners := make(map[cas.Hash]*owner)
	var current *owner
	mark := func(id cas.Hash) (more bool) {
		if !p.Objects.MayBeInStore(id) {
			return false
		}
		before, known := owners[id]
		now := current
		if known {
			now = commonOwner(before, current)
		}

		owners[id] = now

		return !known || now != before // if the owner is unchanged, the objects below have this owner already
	}

	for _, k := range states {
		current = k.owner
		st, err := k.Load(p.Source)
		if err != nil {
			return nil, WithRepairAdvice(err)
		}
		if err := st.Mark(ctx, p.Source, nil, p.Incomplete.Load(), mark); err != nil {
			return nil, WithRepairAdvice(err)
		}
	}

	out, err := sumByOwner(p.CAS, owners, states)
	return out, WithRepairAdvice(err)
}

// sumByOwner adds up the sizes of the objects by owner.
func sumByOwner(store *cas.Store, owners map[cas.Hash]*owner, states []ownedState) (*info.Disk, error) {
	out := &info.Disk{Snapshots: []info.UsedBy{}, Forks: []info.UsedBy{}, Stored: store.Stats().StoredBytes}
	if err := store.EachObjectSize(func(id cas.Hash, bytes int64) {
		o := owners[id]
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

	for _, k := range slices.Backward(states) { // newest first
		switch {
		case seen[k.owner]:
		case k.owner.Seq > 0:
			out.Snapshots = append(out.Snapshots, k.owner.UsedBy)
		default:
			out.Forks = append(out.Forks, k.owner.UsedBy)
		}

		seen[k.owner] = true
	}

	slices.SortStableFunc(out.Forks, func(a, b info.UsedBy) int { return strings.Compare(a.Name, b.Name) })

	return out, nil
}

// ownedStates returns all states of the store with their owners. The caller holds the lock of the
// forest.
func (p *Parts) ownedStates(tx *live.Tx, ws *catalogue.Workspace, names []string) (states []ownedState, err error) {
	named := make(map[*catalogue.Snapshot]bool)
	for _, name := range names {
		sn, err := p.Catalogue.Find(ws, name)
		if err != nil {
			return nil, err
		}
		named[sn] = true
	}

	forks := make(map[*catalogue.Workspace]*owner) // the forks of ws, and the forks in them
	if len(names) == 0 {
		for f := range ws.Forks() {
			o := &owner{UsedBy: info.UsedBy{Name: f.Name}}
			st := f.PresentState(tx)
			o.Files, o.Size = st.Inodes-1, st.Bytes
			f.WalkFamily(func(in *catalogue.Workspace) { forks[in] = o })
		}
	}

	ownerOf := func(w *catalogue.Workspace) *owner {
		if o, ok := forks[w]; ok {
			return o
		}
		return restOfStore
	}

	snaps := make(map[uint32]*owner)

	for view, sn := range p.Catalogue.Snapshots.All() {
		w := p.Catalogue.Workspaces.At(sn.WS)
		o := ownerOf(w)
		if w == ws && view != w.Base && view != w.BookmarkView && !p.Catalogue.IsHidden(sn) && (len(names) == 0 || named[sn]) {
			o = &owner{UsedBy: info.UsedBy{Name: sn.Name, Files: sn.Files, Size: sn.Bytes}, Seq: sn.Seq}
		}

		snaps[view] = o
		states = append(states, ownedState{owner: o, Root: sn.Root()})
	}

	for _, w := range p.Catalogue.Workspaces.All() {
		states = append(states, ownedState{owner: ownerOf(w), Root: catalogue.Root{State: tx.Freeze(w.View)}})
		for _, r := range p.Catalogue.RestoreResults(w) {
			states = append(states, ownedState{owner: snaps[r.View], Root: catalogue.Root{State: r.State}})
		}
	}

	return states, nil
}
