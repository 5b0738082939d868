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

// DiskUsage is what would be given back, in bytes of packs: the records of objects. What a
// gc frees is whole blocks.
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
// seals what is not sealed yet, and takes about 100 bytes of memory for each object of
// the store.
func (ss Snapshots) DiskUsage(ctx context.Context, names []string) (*DiskUsage, error) {
	s := ss.w.store
	if err := s.Checkpoint(ctx); err != nil {
		return nil, err
	}
	defer s.gc.puts.Enter()() // no gc takes away what is counted
	var h holdings
	var err error
	s.alter(func(tx *live.Tx) { h, err = ss.holdings(tx, names) })
	if err != nil {
		return nil, err
	}
	has, err := s.owned(ctx, h)
	if err != nil {
		return nil, err
	}
	out := &DiskUsage{Snapshots: []UsedBy{}, Forks: []UsedBy{}, Stored: s.cas.Stats().Stored}
	if err := s.cas.Sizes(func(id cas.Hash, bytes int64) {
		o, ok := has[id]
		if !ok {
			return
		}
		if o >= 0 {
			h.owners[o].Bytes += bytes
		}
		if o == several || h.isSnapshot(o) {
			out.Together += bytes
		}
	}); err != nil {
		return nil, err
	}
	for _, by := range h.owners {
		if by.fork {
			out.Forks = append(out.Forks, by.UsedBy)
		} else {
			out.Snapshots = append(out.Snapshots, by.UsedBy)
		}
	}
	slices.SortFunc(out.Snapshots, func(a, b UsedBy) int { return cmp.Compare(b.seq, a.seq) })
	slices.SortFunc(out.Forks, func(a, b UsedBy) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// An owner keeps objects: a snapshot that may be deleted, or a fork with all that it
// has. It is known by its number in holdings.
type owner struct {
	UsedBy
	fork bool
}

const (
	stays   = -1 // the owner of what the rest of the store has
	several = -2 // the owner of what more than one snapshot has, and nobody else
)

// holdings are who keeps what.
type holdings struct {
	owners []owner
	kept   []holding
}

// own adds an owner and returns its number.
func (h *holdings) own(o owner) int32 {
	h.owners = append(h.owners, o)
	return int32(len(h.owners) - 1)
}

func (h *holdings) isSnapshot(o int32) bool { return o >= 0 && !h.owners[o].fork }

// both is the owner of what two have.
func (h *holdings) both(a, b int32) int32 {
	switch {
	case a == b:
		return a
	case (a == several || h.isSnapshot(a)) && h.isSnapshot(b):
		return several
	}
	return stays
}

// A holding is a state that is there because of an owner.
type holding struct {
	by    int32
	state *tree.State
	id    cas.Hash // of a state that is not loaded
}

// holdings lists who keeps what. The lock is held.
func (ss Snapshots) holdings(tx *live.Tx, names []string) (h holdings, err error) {
	s := ss.w.store
	asked := make(map[*snap]bool)
	for _, name := range names {
		sn, err := s.cat.find(ss.w, name)
		if err != nil {
			return h, err
		}
		asked[sn] = true
	}
	forks := make(map[*Workspace]int32)
	if len(names) == 0 {
		for _, f := range ss.w.forks {
			forks[f] = h.own(owner{UsedBy: UsedBy{Name: f.name}, fork: true})
		}
	}
	by := func(x *Workspace) int32 { // the fork of the workspace that a workspace is, or lies in
		for ; x != nil && x != ss.w; x = s.cat.workspaces[x.parent] {
			if o, ok := forks[x]; ok {
				return o
			}
			if !x.fork {
				break
			}
		}
		return stays
	}
	snaps := make(map[uint32]int32, len(s.cat.snaps))
	for view, sn := range s.cat.snaps {
		x := s.cat.workspaces[sn.ws]
		o := by(x)
		if x == ss.w && view != ss.w.base && view != ss.w.before && (len(names) == 0 || asked[sn]) {
			o = h.own(owner{UsedBy: UsedBy{Name: sn.Name, Files: sn.Files, Size: sn.Bytes, seq: sn.Seq}})
		}
		snaps[view] = o
		k := holding{by: o, id: sn.id}
		if !sn.Sealed {
			k.state = sn.state.Load()
		}
		h.kept = append(h.kept, k)
	}
	for id, x := range s.cat.workspaces {
		st, err := tx.Capture(id)
		if err != nil {
			return h, err
		}
		o := by(x)
		if f, ok := forks[x]; ok {
			h.owners[f].Files, h.owners[f].Size = st.Inodes-1, st.Bytes
		}
		h.kept = append(h.kept, holding{by: o, state: st})
		for _, r := range x.restored {
			if o, ok := snaps[r.view]; ok {
				h.kept = append(h.kept, holding{by: o, state: r.state})
			}
		}
	}
	return h, nil
}

// order is that in which owners are looked at: first what stays, below which nobody
// looks again, then snapshots as they were made, and so as they lie in the packs.
func (h *holdings) order(o int32) uint64 {
	switch {
	case o < 0:
		return 0
	case h.owners[o].fork:
		return 1
	}
	return 2 + h.owners[o].seq
}

// owned returns who has which object.
func (s *Store) owned(ctx context.Context, h holdings) (map[cas.Hash]int32, error) {
	slices.SortStableFunc(h.kept, func(a, b holding) int { return cmp.Compare(h.order(a.by), h.order(b.by)) })
	has := make(map[cas.Hash]int32)
	var by int32
	mark := s.objects.Here(func(id cas.Hash) (more bool) {
		before, known := has[id]
		now := by
		if known {
			now = h.both(before, by)
		}
		has[id] = now
		return !known || now != before // and so is what is below
	})
	for _, k := range h.kept {
		by = k.by
		st := k.state
		if st == nil {
			var err error
			if st, err = tree.Load(s.src, k.id); err != nil {
				return nil, needsRepair(err)
			}
		}
		if err := st.Mark(ctx, s.src, s.salvage.incomplete.Load(), mark); err != nil {
			return nil, needsRepair(err)
		}
	}
	return has, nil
}
