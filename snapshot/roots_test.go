package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/cas"
)

// Reachable is every object that the store needs, by marking each state for itself, without
// leaving out what another one has.
func (s *Store) Reachable(ctx context.Context) (map[cas.Hash]bool, error) {
	states, sets, err := s.parts.Roots()
	all := map[cas.Hash]bool{}
	for _, h := range sets {
		all[h] = true
	}
	for _, st := range states {
		if err == nil {
			err = st.Mark(ctx, s.src, nil, false, func(h cas.Hash) bool {
				all[h] = true
				return true
			})
		}
	}
	return all, err
}
