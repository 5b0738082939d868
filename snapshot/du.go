package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/snapshot/info"
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
