package snapshot

import (
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// changes are which inodes which actors changed in an interval: the objects of sets, and
// sets that are not stored yet.
type changes struct {
	stored []cas.Hash
	sets   []*actors.Set
}

func gone(i Info) error {
	return fmt.Errorf("%w: snapshot %s was removed meanwhile", ErrNotFound, i.Name)
}

// presentChanges are those since the newest snapshot. The lock is held.
func (w *Workspace) presentChanges(tx *live.Tx) changes { return changes{} }

// presentActors are those that changed anything since the newest snapshot. The lock is
// held at least for reading.
func (w *Workspace) presentActors(tx *live.Tx) []string { return nil }

// union loads sets and joins them.
func (s *core) union(c changes) (*actors.Set, error) {
	all := actors.Union(c.sets...)
	for _, h := range c.stored {
		b, err := s.objects.Get(h, nil)
		if err != nil {
			return nil, fmt.Errorf("the actors of an interval: %w", err)
		}
		set, err := actors.Decode(b)
		if err != nil {
			return nil, fmt.Errorf("the actors of an interval: object %s: %w", h, err)
		}
		all.Merge(set)
	}
	return all, nil
}
