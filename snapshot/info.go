package snapshot

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

type Info = info.Info

// Image is a container image that was imported.
type (
	Image      = info.Image
	ImageOwner = info.Owner
)

// Images lists the images that snapshots came of.
func (s *Store) Images() (all []*Image) {
	s.look(func(*live.Tx) {
		for _, sn := range s.cat.Snapshots {
			if sn.Image != nil {
				all = append(all, sn.Image)
			}
		}
	})
	return all
}

// The ways in which a snapshot comes about.
const (
	KindManual     = info.KindManual
	KindTurn       = info.KindTurn
	KindAuto       = info.KindAuto
	KindPreRestore = info.KindPreRestore
	KindFork       = info.KindFork
	KindImport     = info.KindImport
	KindPull       = info.KindPull
	KindActor      = info.KindActor
)

type snap = catalogue.Snapshot

// Errors of the same kind that callers distinguish. The text of an error that wraps one of
// these is a sentence for the user.
var (
	ErrNotFound = catalogue.ErrNotFound
	ErrNoFork   = catalogue.ErrNoFork
	// ErrUnchanged comes with the newest snapshot, which is as the workspace is now.
	ErrUnchanged = errors.New("nothing changed since the newest snapshot")
	// ErrLost: the catalogue is missing.
	ErrLost    = cas.ErrLost
	ErrRemoved = errors.New("the store, or its index, was removed while it was in use")
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
