// Package usage counts what snapshots and forks take of a store.
package usage

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Disk is what would be given back, in bytes of packs: the records of objects. What a
// gc frees is whole blocks.
type Disk struct {
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
}

// An Owner keeps objects: a snapshot that may be deleted, or a fork with all that it has.
type Owner struct {
	UsedBy
	Seq uint64 // of a snapshot; 0 for a fork
}

var (
	// Rest owns what the rest of the store has.
	Rest = &Owner{}
	// several owns what more than one snapshot has, and no other.
	several = &Owner{Seq: 1}
)

// both is the owner of what two have.
func both(a, b *Owner) *Owner {
	switch {
	case a == b:
		return a
	case a.Seq > 0 && b.Seq > 0:
		return several
	}
	return Rest
}

// A Holding is a state that exists because of an owner.
type Holding struct {
	By *Owner
	catalogue.Root
}

// order is that in which owners are looked at: first what stays, below which there is
// no search, then snapshots as they were made, and so as they lie in the packs.
func (h Holding) order() uint64 {
	if h.By == Rest {
		return 0
	}
	return 1 + h.By.Seq
}

// Count counts the objects that only one owner has. The states are all that the store
// has. It takes about 100 bytes of memory for each object.
func Count(ctx context.Context, objects tree.Objects, src *tree.Source, incomplete bool, kept []Holding) (*Disk, error) {
	slices.SortStableFunc(kept, func(a, b Holding) int { return cmp.Compare(a.order(), b.order()) })
	has := make(map[cas.Hash]*Owner)
	var by *Owner
	mark := objects.Here(func(id cas.Hash) (more bool) {
		before, known := has[id]
		now := by
		if known {
			now = both(before, by)
		}
		has[id] = now
		return !known || now != before // and so is what is below
	})
	for _, k := range kept {
		by = k.By
		st, err := k.Load(src)
		if err == nil {
			err = st.Mark(ctx, src, nil, incomplete, mark)
		}
		if err != nil {
			return nil, err
		}
	}
	return sum(objects.Store, has, kept)
}

// sum adds the sizes of objects up.
func sum(store *cas.Store, has map[cas.Hash]*Owner, kept []Holding) (*Disk, error) {
	out := &Disk{Snapshots: []UsedBy{}, Forks: []UsedBy{}, Stored: store.Stats().Stored}
	if err := store.Sizes(func(id cas.Hash, bytes int64) {
		o := has[id]
		if o == nil || o == Rest {
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
	seen := map[*Owner]bool{Rest: true}
	for _, k := range slices.Backward(kept) { // newest first
		switch {
		case seen[k.By]:
		case k.By.Seq > 0:
			out.Snapshots = append(out.Snapshots, k.By.UsedBy)
		default:
			out.Forks = append(out.Forks, k.By.UsedBy)
		}
		seen[k.By] = true
	}
	slices.SortFunc(out.Forks, func(a, b UsedBy) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
