package live

import "time"

// blocked returns a channel that is closed when the edit or freeze ends that blocks changes of the views,
// nil if none does. The caller holds the forest's lock.
func (t *trees) blocked(views []uint32) chan struct{} {
	if t.mu.frozen != nil {
		return t.mu.frozen
	}

	for _, id := range views {
		if v, ok := t.mu.views[id]; ok && v.edited != nil {
			return v.edited
		}
	}

	return nil
}

// HeldBack returns a channel that is closed when the edit or freeze ends that blocks changes of a view,
// nil if none does. With it a caller can wait in a select.
func (t *trees) HeldBack(view uint32) <-chan struct{} {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if wait := t.blocked([]uint32{view}); wait != nil {
		return wait
	}
	return nil
}

// Freeze blocks every change until Thaw is called, or until d is over. It
// returns false if the forest is frozen already.
func (t *trees) Freeze(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.mu.frozen != nil {
		return false
	}

	ch := make(chan struct{})
	t.mu.frozen = ch
	time.AfterFunc(d, func() { t.thaw(ch) })

	return true
}

// Thaw ends a Freeze. It returns false if the forest was not frozen.
func (t *trees) Thaw() bool { return t.thaw(nil) }

// thaw ends the Freeze that made ch, or any Freeze if ch is nil.
func (t *trees) thaw(ch chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.mu.frozen == nil || ch != nil && ch != t.mu.frozen {
		return false
	}

	close(t.mu.frozen)
	t.mu.frozen = nil

	return true
}

// Frozen reports whether the forest is frozen.
func (t *trees) Frozen() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.frozen != nil
}
