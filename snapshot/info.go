package snapshot

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Images lists the images that snapshots came of.
func (s *Store) Images() (all []*info.Image) {
	s.look(func(*live.Tx) {
		for _, sn := range s.cat.Snapshots {
			if sn.Image != nil {
				all = append(all, sn.Image)
			}
		}
	})
	return all
}

// Errors of the same kind that callers distinguish. The text of an error that wraps one of
// these is a sentence for the user.
var (
	// ErrUnchanged comes with the newest snapshot, which is as the workspace is now.
	ErrUnchanged = errors.New("nothing changed since the newest snapshot")
	ErrRemoved   = errors.New("the store, or its index, was removed while it was in use")
)

// DiskUsage counts the bytes that would be freed by deleting each of the named snapshots, and by
// deleting all of them. Without names it counts all snapshots and forks of the workspace. It
// seals what is not sealed yet.
func (ss Snapshots) DiskUsage(ctx context.Context, names []string) (*info.Disk, error) {
	s := ss.w.store
	if err := s.Checkpoint(ctx); err != nil {
		return nil, err
	}
	defer s.gc.Puts.Enter()() // no gc takes away what is counted
	return s.parts.DiskUsage(ctx, ss.w.ws, names)
}
