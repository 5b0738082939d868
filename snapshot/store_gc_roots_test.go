package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Reachable returns every object that a gc has to keep, each state looked at alone.
func (s *Store) Reachable(ctx context.Context) (map[cas.Hash]bool, error) {
	roots, err := s.parts.Roots()
	if err == nil {
		err = roots.ReadCheckpoint()
	}
	if err != nil {
		return nil, err
	}
	all := map[cas.Hash]bool{}
	for _, h := range roots.LeafObjects {
		all[h] = true
	}
	mark := func(st *tree.State) error {
		return st.Mark(ctx, s.src, nil, false, func(h cas.Hash) bool {
			all[h] = true
			return true
		})
	}
	for _, r := range roots.Snapshots {
		for _, h := range r.ActorSets {
			all[h] = true
		}
		st, err := tree.Load(s.src, r.ID)
		if err != nil {
			return nil, err
		}
		if err := mark(st); err != nil {
			return nil, err
		}
	}
	return all, roots.EachState(mark)
}
