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

// An owner keeps objects: a snapshot that may be deleted, or a fork with all that it has.
type owner struct {
	info.UsedBy
	Seq uint64 // of a snapshot; 0 for a fork
}

var (
	// rest owns what the rest of the store has.
	rest = &owner{}
	// several owns what more than one snapshot has, and no other.
	several = &owner{Seq: 1}
)

// both is the owner of what two have.
func both(a, b *owner) *owner {
	switch {
	case a == b:
		return a
	case a.Seq > 0 && b.Seq > 0:
		return several
	}
	return rest
}

// A holding is a state that exists because of an owner.
type holding struct {
	by *owner
	catalogue.Root
}

// order is that in which owners are looked at: first what stays, below which there is
// no search, then snapshots as they were made, and so as they lie in the packs.
func (h holding) order() uint64 {
	if h.by == rest {
		return 0
	}
	return 1 + h.by.Seq
}

// DiskUsage counts what deleting each of the named snapshots of a workspace would give back,
// and all of them together; without names that of all its snapshots and forks. All must be
// sealed, and the caller is in Collector.Puts. It takes about 100 bytes of memory for each object.
func (p *Parts) DiskUsage(ctx context.Context, ws *catalogue.Workspace, names []string) (*info.Disk, error) {
	var kept []holding
	var err error
	p.Alter(func(tx *live.Tx) { kept, err = p.holdings(tx, ws, names) })
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(kept, func(a, b holding) int { return cmp.Compare(a.order(), b.order()) })
	has := make(map[cas.Hash]*owner)
	var by *owner
	mark := func(id cas.Hash) (more bool) {
		if !p.Objects.Here(id) {
			return false
		}
		before, known := has[id]
		now := by
		if known {
			now = both(before, by)
		}
		has[id] = now
		return !known || now != before // and so is what is below
	}
	for _, k := range kept {
		by = k.by
		st, err := k.Load(p.Source)
		if err == nil {
			err = st.Mark(ctx, p.Source, nil, p.Incomplete.Load(), mark)
		}
		if err != nil {
			return nil, NeedsRepair(err)
		}
	}
	out, err := sum(p.CAS, has, kept)
	return out, NeedsRepair(err)
}

// sum adds the sizes of objects up.
func sum(store *cas.Store, has map[cas.Hash]*owner, kept []holding) (*info.Disk, error) {
	out := &info.Disk{Snapshots: []info.UsedBy{}, Forks: []info.UsedBy{}, Stored: store.Stats().Stored}
	if err := store.Sizes(func(id cas.Hash, bytes int64) {
		o := has[id]
		if o == nil || o == rest {
			return
		}
		if o != several {
			o.Bytes += bytes
		}
		if o.Seq > 0 {
			out.Together += bytes
		}
	}); err != nil {
		return nil, err
	}
	seen := map[*owner]bool{rest: true}
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

// holdings are all states of the store with what they exist for. The lock is held.
func (p *Parts) holdings(tx *live.Tx, ws *catalogue.Workspace, names []string) (kept []holding, err error) {
	asked := make(map[*catalogue.Snapshot]bool)
	for _, name := range names {
		sn, err := p.Catalogue.Find(ws, name)
		if err != nil {
			return nil, err
		}
		asked[sn] = true
	}
	forks := make(map[*catalogue.Workspace]*owner) // those of the workspace, with the forks in them
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
		return rest
	}
	snaps := make(map[uint32]*owner, len(p.Catalogue.Snapshots))
	for view, sn := range p.Catalogue.Snapshots {
		w := p.Catalogue.Workspaces[sn.WS]
		o := by(w)
		if w == ws && view != w.Base && view != w.Before && (len(names) == 0 || asked[sn]) {
			o = &owner{UsedBy: info.UsedBy{Name: sn.Name, Files: sn.Files, Size: sn.Bytes}, Seq: sn.Seq}
		}
		snaps[view] = o
		kept = append(kept, holding{by: o, Root: sn.Root()})
	}
	for _, w := range p.Catalogue.Workspaces {
		kept = append(kept, holding{by: by(w), Root: catalogue.Root{State: w.Freeze(tx)}})
		for _, r := range w.Restored {
			if o, ok := snaps[r.View]; ok {
				kept = append(kept, holding{by: o, Root: catalogue.Root{State: r.State}})
			}
		}
	}
	return kept, nil
}
