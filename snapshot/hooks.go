package snapshot

import (
	"sync/atomic"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// hooks are called when something happens, without a lock held.
type hooks struct {
	replaced   atomic.Pointer[func(names int) (epoch bool)]
	invalidate atomic.Pointer[func(inv live.Invalidation, told func())]
	event      atomic.Pointer[func(events.Event, actors.Caller)]
}

// OnInvalidate sets the function that is called, without a lock held, with changes that were not
// made through the mount. It calls told, perhaps later, when the kernel was notified. After a
// crash before that, the daemon that takes the mount over gets them by live.Forest.Inherit.
func (s *Store) OnInvalidate(fn func(inv live.Invalidation, told func())) {
	s.hooks.invalidate.Store(&fn)
}

// OnReplaced sets the function that is called, without a lock held, when a change is in place that
// was not made through the mount, before other changes of the workspace go on. The function of
// OnInvalidate is called later. epoch is Invalidation.Epoch.
func (s *Store) OnReplaced(fn func(names int) (epoch bool)) { s.hooks.replaced.Store(&fn) }

// OnEvent sets the function that is called, without a lock held, with each event of a workspace as
// a whole, and with each path that a restore, a merge or an import changed. The action is one of
// events.Actions, or "ended" for a workspace that no longer exists.
func (s *Store) OnEvent(fn func(events.Event, actors.Caller)) { s.hooks.event.Store(&fn) }

// replaced notifies the kernel of what it needs to know before other changes go on.
func (s *core) replaced(inv *live.Invalidation) {
	if fn := s.hooks.replaced.Load(); fn != nil && !inv.Empty() {
		inv.Epoch = (*fn)(len(inv.Entries))
	}
}

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

func (s *core) event(e events.Event, c actors.Caller) {
	if fn := s.hooks.event.Load(); fn != nil {
		e.UID, e.PID, e.Command, e.Actor = c.UID, c.PID, c.Command, c.Actor
		(*fn)(e, c)
	}
}
