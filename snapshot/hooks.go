package snapshot

import (
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/steps"
	"sync/atomic"
)

// hooks are those who are told what happens. They are called without a lock held.
type hooks struct {
	invalidate atomic.Pointer[func(live.Invalidation)]
	event      atomic.Pointer[func(Event)]
	layers     atomic.Pointer[func(view uint32) steps.Layers]
}

// An Event is something that happened to a workspace as a whole.
type Event struct {
	Workspace uint32
	// Action is restored, created, modified or deleted, of a path; captured,
	// removed, renamed-snapshot, expired, pulled or pushed, of the snapshot From; forked,
	// renamed-fork, fork-deleted or merged, of a fork; policy; or ended, of a workspace
	// that no longer exists.
	Action string
	Path   string
	From   string
	Size   int64 // bytes, after the event
	// Detail is what a restore did to the path, the new name of a snapshot or fork,
	// the name of a new fork, the snapshot that an ended one left, or the remote.
	Detail string
	Caller live.Caller
}

// OnInvalidate sets what is told of changes from inside. It is called without
// a lock held.
func (s *Store) OnInvalidate(fn func(live.Invalidation)) { s.hooks.invalidate.Store(&fn) }

// OnEvent sets what is told of captures and restores. It is called without a
// lock held.
func (s *Store) OnEvent(fn func(Event)) { s.hooks.event.Store(&fn) }

// SetLayers sets what lists the directories of a view that mounted overlays have as layers.
func (s *Store) SetLayers(fn func(view uint32) steps.Layers) { s.hooks.layers.Store(&fn) }

func (s *core) tell(inv live.Invalidation) {
	if fn := s.hooks.invalidate.Load(); fn != nil && !inv.Empty() {
		(*fn)(inv)
	}
}

func (s *core) event(e Event) {
	if fn := s.hooks.event.Load(); fn != nil {
		(*fn)(e)
	}
}
