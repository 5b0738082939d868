package snapshot

import (
	"sync/atomic"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Hooks are the functions that the mount sets. They are called without a lock held.
type Hooks struct {
	onReplaced   atomic.Pointer[func(names int) (epoch bool)]
	onInvalidate atomic.Pointer[func(inv live.Invalidation, notified func())]
	onEvent      atomic.Pointer[func(events.Event, actors.Caller)]
}

// OnInvalidate sets the function that notifies the kernel of changes that were not made through the mount. It is
// called without a lock held. It must call notified, perhaps later, when the kernel has been notified. If the
// daemon dies before that, live.Takeover.Inherit returns the invalidation to the next daemon of the mount.
func (h *Hooks) OnInvalidate(fn func(inv live.Invalidation, notified func())) {
	h.onInvalidate.Store(&fn)
}

// OnReplaced sets the function that is called when a change that was not made through the mount is visible, and
// other changes of the workspace are still blocked. Its argument is the number of replaced names, and its result
// becomes Invalidation.AllNamesExpire. It is called without a lock held, and before the function of OnInvalidate.
func (h *Hooks) OnReplaced(fn func(names int) (epoch bool)) { h.onReplaced.Store(&fn) }

// OnEvent sets the function that is called with each event: one for each operation on a workspace or snapshot, and
// one for each path that a restore, a merge or an import changed. Event.Action is one of events.Actions, or
// "ended" for a workspace that no longer exists. The function is called without a lock held.
func (h *Hooks) OnEvent(fn func(events.Event, actors.Caller)) { h.onEvent.Store(&fn) }

// notifyReplaced calls the function of OnReplaced.
func (h *Hooks) notifyReplaced(inv *live.Invalidation) {
	if fn := h.onReplaced.Load(); fn != nil && !inv.IsEmpty() {
		inv.AllNamesExpire = (*fn)(len(inv.Entries))
	}
}

// notifyKernel calls the function of OnInvalidate.
func (h *Hooks) notifyKernel(forest *live.Forest, inv live.Invalidation) {
	if inv.IsEmpty() {
		return
	}
	notified := func() { forest.Takeover.MarkNoticed(inv) }
	if fn := h.onInvalidate.Load(); fn != nil {
		(*fn)(inv, notified)
	} else {
		notified()
	}
}

// emit calls the function of OnEvent.
func (h *Hooks) emit(e events.Event, c actors.Caller) {
	if fn := h.onEvent.Load(); fn != nil {
		e.UID, e.PID, e.Command, e.Actor = c.UID, c.PID, c.Command, c.Actor
		(*fn)(e, c)
	}
}
