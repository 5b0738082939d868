package snapshot

import (
	"sync/atomic"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// hooks are called when something happens, without a lock held.
type hooks struct {
	invalidate atomic.Pointer[func(inv live.Invalidation, told func())]
	event      atomic.Pointer[func(Event, actors.Caller)]
}

type Event = events.Event

// OnInvalidate sets what is called with changes from inside, without a lock held. It calls
// told when the kernel knows of them, which may be later: after a crash before that, they are
// in the inheritance of who takes the connection to the kernel over.
func (s *Store) OnInvalidate(fn func(inv live.Invalidation, told func())) {
	s.hooks.invalidate.Store(&fn)
}

// OnEvent sets what is called with each event of a workspace as a whole, and with each path
// that a restore, a merge or an import changed, without a lock held. Beside events.Actions
// there is the action "ended", of a workspace that no longer exists.
func (s *Store) OnEvent(fn func(Event, actors.Caller)) { s.hooks.event.Store(&fn) }

func (s *core) tell(inv live.Invalidation) {
	if inv.Empty() {
		return
	}
	told := func() { s.forest.Noticed(inv) }
	if fn := s.hooks.invalidate.Load(); fn != nil {
		(*fn)(inv, told)
	} else {
		told()
	}
}

func (s *core) event(e Event, c actors.Caller) {
	if fn := s.hooks.event.Load(); fn != nil {
		e.UID, e.PID, e.Command, e.Actor = c.UID, c.PID, c.Command, c.Actor
		(*fn)(e, c)
	}
}
