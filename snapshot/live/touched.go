package live

import (
	"slices"
	"sync"
)

// touched are views that were touched since a reader looked. Views that were dropped may be
// among them.
type touched struct {
	mu    sync.Mutex
	views [readers][]*view
}

// What looks for touched views.
const (
	// checkpoints look for those that may differ from what the last checkpoint stored: in their
	// state, orphans, or actors. Every other view is sealed.
	checkpoints = iota
	policies
	readers
)

// touch is called before a change of a view, with the forest's lock held at least for reading.
func (v *view) touch() {
	for reader := range v.touched {
		if v.touched[reader].Load() || v.touched[reader].Swap(true) {
			continue
		}
		t := &v.trees.touched
		t.mu.Lock()
		t.views[reader] = append(t.views[reader], v)
		t.mu.Unlock()
	}
}

// Touched returns the views that may differ from what the last checkpoint stored, in order. The
// lock is held for changes, as for all functions below.
func (tx *Tx) Touched() []uint32 { return tx.touchedFor(checkpoints) }

// TakeTouched is Touched for a checkpoint, which stores them, or calls Touch.
func (tx *Tx) TakeTouched() []uint32 {
	ids := tx.Touched()
	tx.Untouch(ids...)
	return ids
}

// TakeChanged returns the views that may have changed since the last call.
func (tx *Tx) TakeChanged() []uint32 {
	ids := tx.touchedFor(policies)
	tx.untouch(policies, ids)
	return ids
}

// Touch notes that views may differ from what the last checkpoint stored.
func (tx *Tx) Touch(views ...uint32) {
	for _, id := range views {
		if v, ok := tx.f.mu.views[id]; ok {
			v.touch()
		}
	}
}

// Untouch notes that views are as the last checkpoint stored them.
func (tx *Tx) Untouch(views ...uint32) { tx.untouch(checkpoints, views) }

func (tx *Tx) touchedFor(reader int) (ids []uint32) {
	t := &tx.f.touched
	t.mu.Lock()
	defer t.mu.Unlock()
	t.views[reader] = slices.DeleteFunc(t.views[reader], func(v *view) bool { return tx.f.mu.views[v.id] != v })
	for _, v := range t.views[reader] {
		ids = append(ids, v.id)
	}
	slices.Sort(ids)
	return ids
}

func (tx *Tx) untouch(reader int, views []uint32) {
	t := &tx.f.touched
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range views {
		if v, ok := tx.f.mu.views[id]; ok {
			v.touched[reader].Store(false)
		}
	}
	t.views[reader] = slices.DeleteFunc(t.views[reader], func(v *view) bool { return !v.touched[reader].Load() })
}
