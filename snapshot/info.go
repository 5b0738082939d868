package snapshot

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Images lists the container images from which snapshots were imported.
func (s *Store) Images() (all []*info.Image) {
	s.forest.WithReadLock(func(*live.Tx) {
		for _, sn := range s.cat.Snapshots.Loaded() {
			if sn.Image != nil {
				all = append(all, sn.Image)
			}
		}
	})
	return all
}

var (
	// ErrUnchanged is returned with the newest snapshot, which equals the present state.
	ErrUnchanged = errors.New("nothing changed since the newest snapshot")
	// ErrRemoved is returned by Close.
	ErrRemoved = errors.New("the store, or its index, was removed while it was in use")
)

// DiskUsage counts the bytes that would be freed by deleting each of the named snapshots, and by
// deleting all of them. Without names it counts all snapshots and forks of the workspace. It
// makes a checkpoint first, because only sealed states can be counted.
func (ss Snapshots) DiskUsage(ctx context.Context, names []string) (*info.Disk, error) {
	s := ss.w.store
	if err := s.Checkpoint(ctx); err != nil {
		return nil, err
	}
	defer s.gc.Puts.Enter()() // no gc removes objects during the count
	return s.parts.DiskUsage(ctx, ss.w.ws, names)
}
