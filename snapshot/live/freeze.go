package live

import "time"

// A Freezer blocks all changes of a forest until Thaw or a time limit.
type Freezer struct{ trees *trees }

// blocker returns the channel that is closed at the end of the edit or freeze that blocks changes of the views, or
// nil if changes are not blocked. The caller holds the forest's lock.
func (t *trees) blocker(views []uint32) <-chan struct{} {
	if t.mu.frozen != nil {
		return t.mu.frozen
	}

	for _, id := range views {
		if v, ok := t.mu.views[id]; ok && v.editDone != nil {
			return v.editDone
		}
	}

	return nil
}

// Blocker returns the channel that is closed at the end of the edit or freeze that blocks changes of a view, or
// nil if changes are not blocked. A caller can wait for the channel in a select statement.
func (f Freezer) Blocker(view uint32) <-chan struct{} {
	f.trees.mu.RLock()
	defer f.trees.mu.RUnlock()
	return f.trees.blocker([]uint32{view})
}

// Freeze blocks every change until Thaw is called or the time d has passed. It
// returns false if the forest is frozen already.
func (f Freezer) Freeze(d time.Duration) bool {
	f.trees.mu.Lock()
	defer f.trees.mu.Unlock()

	if f.trees.mu.frozen != nil {
		return false
	}

	ch := make(chan struct{})
	f.trees.mu.frozen = ch
	time.AfterFunc(d, func() { f.trees.thaw(ch) })

	return true
}

// Thaw ends a Freeze. It returns false if the forest was not frozen.
func (f Freezer) Thaw() bool { return f.trees.thaw(nil) }

// thaw ends the Freeze that created ch, or any Freeze if ch is nil.
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

// IsFrozen reports whether the forest is frozen.
func (f Freezer) IsFrozen() bool {
	f.trees.mu.RLock()
	defer f.trees.mu.RUnlock()
	return f.trees.mu.frozen != nil
}
