package snapshot

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// DiskUsage is what would be given back, in bytes of packs.
type DiskUsage struct {
	Snapshots []UsedBy `json:"snapshots"`
	Forks     []UsedBy `json:"forks"`
	// Together is what would be given back if all snapshots that were named, or
	// all there are, were deleted at once: more than the sum, as what only they
	// share goes too.
	Together int64 `json:"together"`
	// Stored is all that the packs hold.
	Stored int64 `json:"stored"`
}

// UsedBy is what one snapshot or fork alone keeps.
type UsedBy struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Files and Size are what it holds, shared or not.
	Files int64 `json:"files"`
	Size  int64 `json:"size"`

	seq uint64
}

// DiskUsage tells what deleting each of the named snapshots would give back, and all of
// them together; without names that of all snapshots and forks of the workspace. It
// seals what is not sealed yet, and takes about 64 bytes of memory for each object of
// the store.
func (w *Workspace) DiskUsage(ctx context.Context, names []string) (*DiskUsage, error) {
	s := w.store
	if err := s.Checkpoint(ctx); err != nil {
		return nil, err
	}
	defer s.gc.puts.enter()() // no gc takes away what is counted
	var kept []holding
	var err error
	s.alter(func(tx *live.Tx) { kept, err = w.holdings(tx, names) })
	if err != nil {
		return nil, err
	}
	alone, err := s.alone(ctx, kept)
	if err != nil {
		return nil, err
	}
	out := &DiskUsage{Snapshots: []UsedBy{}, Forks: []UsedBy{}, Stored: s.cas.Stats().Stored}
	for o, bytes := range alone {
		o.Bytes = bytes
		switch o.kind {
		case ownsSnapshot:
			out.Snapshots = append(out.Snapshots, o.UsedBy)
		case ownsFork:
			out.Forks = append(out.Forks, o.UsedBy)
		}
	}
	slices.SortFunc(out.Snapshots, func(a, b UsedBy) int { return cmp.Compare(b.seq, a.seq) })
	slices.SortFunc(out.Forks, func(a, b UsedBy) int { return strings.Compare(a.Name, b.Name) })
	all, rest := &owner{kind: ownsSnapshot}, &owner{}
	for i := range kept {
		if kept[i].by.kind == ownsSnapshot {
			kept[i].by = all
		} else {
			kept[i].by = rest
		}
	}
	if alone, err = s.alone(ctx, kept); err != nil {
		return nil, err
	}
	out.Together = alone[all]
	return out, nil
}

// An owner keeps objects: a snapshot that may be deleted, a fork with all that it has,
// or the rest of the store, which stays.
type owner struct {
	UsedBy
	kind ownerKind
}

type ownerKind int

const (
	ownsRest ownerKind = iota
	ownsSnapshot
	ownsFork
)

// A holding is a state that is there because of an owner.
type holding struct {
	by    *owner
	state *tree.State
	id    cas.Hash // of a state that is not loaded
}

// holdings lists who keeps what. The lock is held.
func (w *Workspace) holdings(tx *live.Tx, names []string) (kept []holding, err error) {
	s := w.store
	asked := make(map[*snap]bool)
	for _, name := range names {
		sn, err := s.find(w, name)
		if err != nil {
			return nil, err
		}
		asked[sn] = true
	}
	rest := &owner{}
	forks := make(map[*Workspace]*owner)
	if len(names) == 0 {
		for _, f := range w.forks {
			forks[f] = &owner{UsedBy: UsedBy{Name: f.name}, kind: ownsFork}
		}
	}
	by := func(x *Workspace) *owner { // the fork of w that a workspace is, or lies in
		for ; x != nil && x != w; x = s.cat.workspaces[x.parent] {
			if o := forks[x]; o != nil {
				return o
			}
			if !x.fork {
				break
			}
		}
		return rest
	}
	snaps := make(map[uint32]*owner)
	for view, sn := range s.cat.snaps {
		x := s.cat.workspaces[sn.ws]
		o := by(x)
		if x == w && view != w.origin && view != w.before && (len(names) == 0 || asked[sn]) {
			o = &owner{UsedBy: UsedBy{Name: sn.Name, Files: sn.Files, Size: sn.Bytes, seq: sn.Seq}, kind: ownsSnapshot}
		}
		snaps[view] = o
		k := holding{by: o, id: sn.id}
		if !sn.Sealed {
			k.state = sn.state.Load()
		}
		kept = append(kept, k)
	}
	for id, x := range s.cat.workspaces {
		st, err := tx.Capture(id)
		if err != nil {
			return nil, err
		}
		o := by(x)
		if o == forks[x] && o != nil {
			o.Files, o.Size = st.Inodes-1, st.Bytes
		}
		kept = append(kept, holding{by: o, state: st})
		for _, r := range x.restored {
			if o := snaps[r.view]; o != nil {
				kept = append(kept, holding{by: o, state: r.state})
			}
		}
	}
	return kept, nil
}

// alone returns, for each owner, the bytes that gc would give back of the objects that
// no other has.
func (s *Store) alone(ctx context.Context, kept []holding) (map[*owner]int64, error) {
	shared := &owner{}
	has := make(map[cas.Hash]*owner)
	sums := make(map[*owner]int64)
	for _, k := range kept {
		sums[k.by] = 0
		st := k.state
		if st == nil {
			var err error
			if st, err = tree.Load(s.src, k.id); err != nil {
				return nil, needsRepair(err)
			}
		}
		if err := st.Mark(ctx, s.src, s.salvage.incomplete.Load(), s.markHere(func(h cas.Hash) bool {
			switch has[h] {
			case nil:
				has[h] = k.by
			case k.by, shared:
				return false
			default:
				has[h] = shared // and so is what is below
			}
			return true
		})); err != nil {
			return nil, needsRepair(err)
		}
	}
	number := map[*owner]int32{shared: cas.Stays}
	var owners []*owner
	for o := range sums {
		number[o] = int32(len(owners))
		if o.kind == ownsRest {
			number[o] = cas.Stays
			continue
		}
		owners = append(owners, o)
	}
	bytes, err := s.cas.Reclaimable(func(yield func(cas.Hash, int32) bool) {
		for h, o := range has {
			if !yield(h, number[o]) {
				return
			}
		}
	}, len(owners))
	if err != nil {
		return nil, err
	}
	for i, o := range owners {
		sums[o] = bytes[i]
	}
	return sums, nil
}
