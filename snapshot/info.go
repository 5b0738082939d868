package snapshot

import (
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/interval"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Info describes a snapshot.
type Info = info.Info

// Image is a container image that was imported.
type (
	Image      = info.Image
	ImageOwner = info.Owner
)

// Images lists the images that snapshots came of.
func (s *Store) Images() (all []*Image) {
	s.look(func(*live.Tx) {
		for _, sn := range s.cat.snaps {
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

// snap is a snapshot in the catalogue, guarded by the lock of the forest but
// for state.
type snap struct {
	Info
	ws    uint32 // view of its workspace
	id    cas.Hash
	state atomic.Pointer[tree.State] // nil until a reader looks into a sealed one
	done  chan struct{}              // closed when sealed
	// wanted by a checkpoint: it is sealed even when it is removed meanwhile,
	// since the journal after the checkpoint may still restore it.
	wanted bool
	// lazy: it is sealed only when a checkpoint needs it.
	lazy bool
	// retry is when the background seals it again after it failed, guarded by seal.mu.
	retry time.Time
	// text is how many bytes its message and labels have, 0 if not counted yet.
	text int64
	// changes are those since the snapshot before.
	changes interval.Changes
}

// storedSnapshot is the catalogue's record of a snapshot, in the metadata of the
// chunk store and in the journal.
type storedSnapshot struct {
	View uint32 `json:"view"`
	WS   uint32 `json:"ws"` // view of its workspace
	Info
	// ActorSets are the objects that have the actors of the changes since the snapshot before.
	ActorSets []cas.Hash `json:"actor_sets,omitempty"`
}

func (s *snap) stored() storedSnapshot {
	return storedSnapshot{View: s.View, WS: s.ws, Info: s.Info, ActorSets: s.changes.Stored}
}

// info is what users see of a record.
func (r *storedSnapshot) info() Info {
	i := r.Info
	i.View, i.Sealed = r.View, r.ID != ""
	return i
}

// load makes the snapshot that a record describes, without its state.
func (r *storedSnapshot) load() (*snap, error) {
	s := &snap{Info: r.info(), ws: r.WS, done: make(chan struct{}), changes: interval.Changes{Names: r.Actors, Stored: r.ActorSets}}
	if !s.Sealed {
		return s, nil
	}
	close(s.done)
	var err error
	s.id, err = cas.ParseHash(r.ID)
	return s, err
}
